// Attention over whole sequences by tensor copies and warpgroup products: the Hopper member of the attention family.
#pragma once

#include <limits>

#include "iron/hopper.h"

namespace iron::kernels {

/// The running softmax of a warpgroup's rows, in base 2: the largest score, the sum that this thread holds, and by how
/// much what was summed before shrinks.
struct RowSoftmax {
  RowSoftmax(u32 row_count, const Val<f32>& scale_log2)
      : scale(scale_log2),
        top(row_count, -std::numeric_limits<f32>::infinity()),
        sum(row_count, 0.0f),
        fix(row_count, 1.0f) {}

  /// exp2((x - top) * scale) with the new top; sum and fix follow.
  Frag<f32> operator()(const Frag<f32>& x) {
    const auto next = quad_max(fold_max(x, top.value()));
    const auto shrink = fast_exp2((top.value() - next) * scale);
    top = next;
    fix = shrink;
    const auto e = fast_exp2(fma(x, scale, -(next * scale)));
    sum = fold_sum(e, sum.value() * shrink);
    return e;
  }
  Rows<f32> total() const { return quad_sum(sum.value()); }
  /// The state as a fragment of 8 columns: the largest score in column 0, the sum of weights in the others.
  Frag<f32> columns() const {
    const auto whole = total();
    const Acc<f32> shape{whole.row_count(), 8};
    const auto largest = top.value();
    return where(shape.col() == 0u, largest, whole);
  }

  Val<f32> scale;
  RowsVar<f32> top, sum, fix;
};

struct AttentionTmaSpec {
  bool causal = true;
  u32 units = 132;  ///< threadgroups that run at once: the device's multiprocessors
  /// Keys whose vectors and values, 512 bytes a key, half of the second cache holds: so much of the heads goes together
  /// under the causal mask.
  u32 section_keys = 32768;

  static constexpr u32 threads = 384, rows = 128, keys = 128;
};

/// o[b, h, i, :] = sum_j softmax_j(scale * q[b, h, i, :] . k[b, h / group, j, :]) v[b, h / group, j, :], j <= i if
/// causal q, o: [batch, heads, seq, 128]; k, v: [batch, heads / group, seq, 128]. scale_log2 is scale * log2(e). Two
/// warpgroups take turns at the matrix unit; the products of one hide the softmax of the other.
template <class T>
struct AttentionTma {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 hd = 128;

  TensorMap<T> q, k, v;
  TensorMapOut<T> o;
  Scalar<u32> seq, heads, group, batch;
  Scalar<f32> scale_log2;
  AttentionTmaSpec spec;

  Grid grid() const {
    const u32 tiles =
        (seq.value() + AttentionTmaSpec::rows - 1) / AttentionTmaSpec::rows * heads.value() * batch.value();
    return {Threadgroups{std::min(spec.units, tiles)}, Threads{AttentionTmaSpec::threads}};
  }

  /// One block of rows of one head.
  struct Place {
    Val<Index> block, head, batch, blocks;  ///< `blocks` of keys, the last one first
  };
  /// Heads go in sections, so that threadgroups which run at once read the same keys: without a mask the heads of one
  /// key head, else as many as `section_keys` allow. Under the mask every other section goes from its short rows to its
  /// long ones, the last from the long ones: over an even number of sections all threadgroups get as much.
  Place place(const Val<Index>& tile, const Val<Index>& row_blocks) const {
    const auto all_heads = Val<Index>(heads) * batch;
    const auto most = group * (spec.causal ? max(spec.section_keys / Val<Index>(seq), 1) : Val<Index>(1u));
    const auto section = ceil_div(all_heads, 2u * ceil_div(all_heads, 2u * most));
    const auto number = tile / (section * row_blocks), in = tile % (section * row_blocks);
    const auto size = min(all_heads - number * section, section);
    const auto turned = (ceil_div(all_heads, section) - number) % 2u == 0u;
    const auto from = in / size;
    const auto block = spec.causal ? select(turned, from, row_blocks - 1u - from) : Val<Index>(from);
    const auto head = number * section + in % size;
    return {block, head % heads, head / heads, spec.causal ? block + 1u : row_blocks};
  }

  void operator()() const {
    constexpr u32 rows = 64;  // of a warpgroup
    Shared<T> sq{1, {AttentionTmaSpec::rows, hd}, Swizzle::b128}, so{2, {rows, hd}, Swizzle::b128};
    Shared<T> sk{2, {AttentionTmaSpec::keys, hd}, Swizzle::b128}, sv{2, {AttentionTmaSpec::keys, hd}, Swizzle::b128};
    const Pipeline pq{1, "load", "math"}, pk{2, "load", "math"}, pv{2, "load", "math"};
    const Turns turn{"math"};
    const auto row_blocks = ceil_div(seq, AttentionTmaSpec::rows);
    const auto tiles = row_blocks * heads * batch;

    for (auto& role : roles({{"load", 1, Regs{24}, Issue::one}, {"math", 2, Regs{240}}})) {
      if (role.is("load")) {
        auto oq = pq.producer(), ok = pk.producer(), ov = pv.producer();
        for (auto t : range(threadgroup_id(), tiles, threadgroups())) {
          const auto at = place(t, row_blocks);
          const auto shared_head = at.head / group;
          const auto s = oq.acquire();
          q.load(s, sq[s], {0u, at.block * AttentionTmaSpec::rows, at.head, at.batch});
          for (auto i : range(at.blocks)) {
            const auto first = (at.blocks - 1u - i) * AttentionTmaSpec::keys;
            const auto ks = ok.acquire();
            k.load(ks, sk[ks], {0u, first, shared_head, at.batch});
            const auto vs = ov.acquire();
            v.load(vs, sv[vs], {0u, first, shared_head, at.batch});
          }
        }
      } else {
        auto rq = pq.consumer(), rk = pk.consumer(), rv = pv.consumer();
        const auto wg = role.index();
        const auto mine = wg * rows;
        const Val<f32> scale(scale_log2);
        Acc<f32> s{rows, AttentionTmaSpec::keys}, out{rows, hd};
        FragVar<T> p{rows, AttentionTmaSpec::keys};
        for (auto t : range(threadgroup_id(), tiles, threadgroups())) {
          const auto at = place(t, row_blocks);
          RowSoftmax soft{rows, scale};
          out.clear();
          const auto tile = sq[rq.wait()].rows(mine, rows);
          {  // the last block of keys: the one with a diagonal, or with an end
            turn.enter(role);
            const auto ks = rk.wait();
            s.mma(tile, sk[ks].t(), false);
            turn.leave(role);
            settle(0);
            rk.release();
            const auto key = s.col();  // named: fragments are made in the order in which they are written
            const auto out_of_reach =
                spec.causal ? key > s.row() + mine : key >= Val<Index>(seq) - (at.blocks - 1u) * AttentionTmaSpec::keys;
            const f32 none = -std::numeric_limits<f32>::infinity();
            const auto e = soft(where(out_of_reach, none, s.value()));
            p = cast<T>(e);
          }
          for ([[maybe_unused]] auto i : range(1u, at.blocks)) {
            turn.enter(role);
            const auto ks = rk.wait();
            s.mma(tile, sk[ks].t(), false);
            const auto vs = rv.wait();
            out.mma(p, sv[vs]);
            turn.leave(role);
            settle(1);
            rk.release();
            const auto e = soft(s.value());  // hidden by the product with V and by the other warpgroup
            settle(0);
            rv.release();
            out.scale(soft.fix);
            p = cast<T>(e);
          }
          rq.release();
          const auto vs = rv.wait();
          out.mma(p, sv[vs]);
          settle(0);
          rv.release();
          const auto stage = so[wg];
          reclaim(stage);
          const auto per_row = recip(soft.total());  // named: reading the accumulator is an effect, and keeps its place
          put(stage, cast<T>(out.value() * per_row));
          o.store(stage, {0u, at.block * AttentionTmaSpec::rows + mine, at.head, at.batch});
        }
      }
    }
  }
};

}  // namespace iron::kernels
