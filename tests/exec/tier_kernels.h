// Small kernels of the Hopper tier, with the forms that real ones have, and their oracles in f64.
#pragma once

#include "iron/hopper.h"
#include "tier_case.h"

namespace iron::exec::tier {

/// out = in + 1, in tiles of 16 x 64 that pass a ring of `stages` slots.
struct CopyTiles {
  static constexpr Mode mode = Mode::Threadgroup;
  TensorMap<f16> in;
  TensorMapOut<f16> out;
  Scalar<u32> rows, cols;
  u32 stages = 2;

  void operator()() const {
    Shared<f16> ring{stages, {16, 64}, Swizzle::b128}, stage{1, {16, 64}, Swizzle::b128};
    const Pipeline pipe{stages, "load", "use"};
    const auto across = ceil_div(cols, 64u), tiles = across * ceil_div(rows, 16u);
    for (auto& role : roles({{"load", 1, Regs{40}, Issue::one}, {"use", 1, Regs{128}}})) {
      const auto mine = [&] { return range(threadgroup_id(), tiles, threadgroups()); };
      if (role.is("load")) {
        auto to = pipe.producer();
        for (auto t : mine()) {
          const auto s = to.acquire();
          in.load(s, ring[s], {t % across * 64u, t / across * 16u});
        }
      } else {
        auto from = pipe.consumer();
        const auto thread = thread_id() - 128u;
        for (auto t : mine()) {
          const auto s = from.wait();
          reclaim(stage.slot(0u));
          for (auto i : range(thread, 16u * 64u, 128u)) {
            const Val<f16> v = ring[s](i / 64u, i % 64u);
            stage.slot(0u)(i / 64u, i % 64u) = cast<f16>(cast<f32>(v) + 1.0f);
          }
          from.release();
          out.store(stage.slot(0u), {t % across * 64u, t / across * 16u});
        }
      }
    }
  }
};

/// c[m, n] = sum_k a[m, k] * b[n, k] in blocks of 128 x 64: two warpgroups, and b shared through a cluster.
struct Gemm {
  static constexpr Mode mode = Mode::Threadgroup;
  TensorMap<bf16> a, b;
  TensorMapOut<bf16> c;
  Scalar<u32> m, n, k;
  u32 cluster = 1, stages = 2;

  void operator()() const {
    constexpr u32 bm = 128, bn = 64, bk = 64;
    const Cluster pair{cluster};
    Shared<bf16> sa{stages, {bm, bk}, Swizzle::b128}, sb{stages, {bn, bk}, Swizzle::b128};
    Shared<bf16> sc{2, {64, bn}, Swizzle::b128};
    const Pipeline pipe{stages, "load", "mma"};
    const Tiles tiles{ceil_div(m, bm * cluster), ceil_div(n, bn), 2, pair};
    const u32 share = bn / cluster;
    const auto rank = pair.rank();
    const auto steps = ceil_div(k, bk);
    const auto row = [&](const TileId& t) { return (t.m * cluster + rank) * bm; };

    for (auto& role : roles({{"load", 1, Regs{40}, Issue::one}, {"mma", 2, Regs{232}}})) {
      if (role.is("load")) {
        auto out = pipe.producer();
        for (auto t : tiles)
          for (auto i : range(steps)) {
            const auto s = out.acquire();
            a.load(s, sa[s], {i * bk, row(t)});
            b.load(s, sb[s].rows(rank * share, share), {i * bk, t.n * bn + rank * share}, Multicast{pair});
          }
      } else {
        auto in = pipe.consumer();
        const auto wg = role.index();
        Acc<f32> acc{64, bn};
        for (auto t : tiles) {
          for (auto i : range(steps)) {
            const auto s = in.wait();
            acc.mma(sa[s].rows(wg * 64u, 64), sb[s].t(), i != 0u);
            settle(1);
            in.release(1);
          }
          settle(0);
          in.release();
          const auto stage = sc[wg];
          reclaim(stage);
          put(stage, cast<bf16>(acc.value()));
          c.store(stage, {t.n * bn, row(t) + wg * 64u});
        }
      }
    }
  }
};

/// o = softmax(q k^T) v for one head of 64 columns: blocks of 128 queries, 64 keys, two warpgroups in turns, the
/// weights as a fragment.
struct Attention {
  static constexpr Mode mode = Mode::Threadgroup;
  TensorMap<f16> q, k, v;
  TensorMapOut<f16> o;
  Scalar<u32> queries, keys;

  void operator()() const {
    constexpr u32 hd = 64, kn = 64, bm = 128;
    Shared<f16> sq{1, {bm, hd}, Swizzle::b128}, sk{2, {kn, hd}, Swizzle::b128}, sv{2, {kn, hd}, Swizzle::b128};
    const Pipeline pq{1, "load", "math"}, pk{2, "load", "math"}, pv{2, "load", "math"};
    const Turns turn{"math"};
    const auto blocks = ceil_div(keys, kn);
    const auto tiles = [&] { return range(threadgroup_id(), ceil_div(queries, bm), threadgroups()); };
    for (auto& role : roles({{"load", 1, Regs{40}, Issue::one}, {"math", 2, Regs{232}}})) {
      if (role.is("load")) {
        auto toq = pq.producer(), tok = pk.producer(), tov = pv.producer();
        for (auto t : tiles()) {
          const auto s = toq.acquire();
          q.load(s, sq[s], {0u, t * bm});
          for (auto i : range(blocks)) {
            const auto sk_ = tok.acquire();
            k.load(sk_, sk[sk_], {0u, i * kn});
            const auto sv_ = tov.acquire();
            v.load(sv_, sv[sv_], {0u, i * kn});
          }
        }
      } else {
        auto rq = pq.consumer(), rk = pk.consumer(), rv = pv.consumer();
        const auto mine = role.index() * 64u;
        Acc<f32> s{64, kn}, out{64, hd};
        FragVar<f16> p{64, kn};
        for (auto t : tiles()) {
          const auto block = sq[rq.wait()].rows(mine, 64);
          RowsVar<f32> top{64, -1e30f}, sum{64, 0.0f}, fix{64, 1.0f};
          const auto soft = [&](const Frag<f32>& x) {
            const Rows<f32> most = quad_max(fold_max(x, top));
            fix = exp2(top.value() - most);
            top = most;
            const Frag<f32> e = exp2(x - most);
            const Rows<f32> shrink = fix.value();
            sum = fold_sum(e, sum.value() * shrink);
            return e;
          };
          out.clear();
          turn.enter(role);
          s.mma(block, sk[rk.wait()].t(), false);
          turn.leave(role);
          settle(0);
          rk.release();
          const Frag<f32> first = soft(s.value());
          p = cast<f16>(first);
          for (auto i : range(1u, blocks)) {
            (void)i;
            turn.enter(role);
            s.mma(block, sk[rk.wait()].t(), false);
            out.mma(p, sv[rv.wait()]);
            turn.leave(role);
            settle(1);
            rk.release();
            const Frag<f32> e = soft(s.value());
            settle(0);
            rv.release();
            out.scale(fix);
            p = cast<f16>(e);
          }
          out.mma(p, sv[rv.wait()]);
          settle(0);
          rv.release();
          const Rows<f32> per_row = recip(quad_sum(sum));
          put(block, cast<f16>(out.value() * per_row));
          o.store(block, {0u, t * bm + mine});
          reclaim(block);
          rq.release();
        }
      }
    }
  }
};

/// Two warpgroups turn each tile of 256 elements end to end, through threadgroup memory of their own.
struct Exchange {
  static constexpr Mode mode = Mode::Threadgroup;
  TensorMap<f16> in;
  Out<f32> out;
  Scalar<u32> tiles;

  void operator()() const {
    Shared<f16> ring{2, {4, 64}, Swizzle::none};
    Shared<f32> line{256};
    const Pipeline pipe{2, "load", "use"};
    for (auto& role : roles({{"load", 1, Regs{40}, Issue::one}, {"use", 2, Regs{128}}})) {
      if (role.is("load")) {
        auto to = pipe.producer();
        for (auto t : range(tiles)) {
          const auto s = to.acquire();
          in.load(s, ring[s], {0u, t * 4u});
        }
      } else {
        auto from = pipe.consumer();
        const auto thread = thread_id() - 128u;
        for (auto t : range(tiles)) {
          const auto s = from.wait();
          line[thread] = cast<f32>(Val<f16>(ring[s](thread / 64u, thread % 64u)));
          from.release();
          role.barrier();
          out[t * 256u + thread] = line[255u - thread];
          role.barrier();
        }
      }
    }
  }
};

/// Each threadgroup of a cluster of 4 sums its part of x; rank 0 to 3 add the parts in rank order.
struct ClusterSum {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const Cluster four{4};
    Shared<f32> part{1};
    const Val<f32> total = threadgroup_sum(x[grid_thread_id()]);
    if_(thread_id() == 0u) { part[0u] = total; }
    four.sync();
    if_(thread_id() == 0u) {
      Var<f32> all{0.0f};
      for (u32 i = 0; i < 4; ++i) all += part.peer(i)[0u];
      y[threadgroup_id()] = all;
    }
    four.sync();
  }
};

/// Sums of a column over blocks of 256 that pass a ring of three stages, filled by copies of 16 bytes that threads
/// start; each thread reads what others copied. The blocks after the last one are zeros.
struct StagedSum {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  Scalar<u32> blocks;
  void operator()() const {
    constexpr u32 stages = 3, block = 256;
    Shared<f32> ring{stages * block};
    const auto thread = thread_id();
    const Use<Index> count(blocks);
    const Val<Index> last = Val<Index>(count) - 1u;
    const auto start = [&](const Val<Index>& i) {
      copy_async_or_zeros<4>(ring, i % stages * block + thread * 4u, x, i <= last, min(i, last) * block + thread * 4u);
      commit_copies();
    };
    for (u32 i = 0; i + 1 < stages; ++i) start(constant<Index>(i));
    Var<f32> sum{0.0f};
    for (auto i : range(blocks)) {
      wait_copies(stages - 2);
      barrier();
      const auto next = i + (stages - 1);
      start(next);
      sum += ring[i % stages * block + (block - 1) - thread];
    }
    y[thread] = sum;
    wait_copies();
  }
};

// --- with inputs; split_case is the library's GemmSplitKCluster
Case copy_case(u32 rows, u32 cols, u32 groups);
Case gemm_case(u32 m, u32 n, u32 k, u32 cluster, u32 groups);
Case attention_case(u32 queries, u32 keys, u32 groups);
Case exchange_case(u32 tiles);
Case cluster_case();
Case staged_case(u32 blocks);
Case split_case(u32 m, u32 n, u32 k, u32 cluster);

}  // namespace iron::exec::tier
