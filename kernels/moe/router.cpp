// Mixture of experts: the router's choice of experts, and the moves of rows to experts and back.
#include <algorithm>
#include <limits>
#include <numeric>

#include "iron/dsl.h"
#include "iron/library.h"
#include "registry.h"
#include "rows.h"

namespace iron::kernels {

// idx[r, j], w[r, j]: the j-th largest logit of row r, ties to the smallest index, and its weight      j < k <= 32
// norm_topk: softmax over the chosen k; else softmax over all experts, not renormalised. logits: [R, E], E <= 1024.
// Where fewer than k logits are numbers the rest is {0xffffffff, 0}. One simdgroup a row.
template <class T>
struct MoeRouterTopk {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 most_experts = 1024, most_chosen = 32, no_expert = 0xffffffffu;

  In<T> logits;
  Out<u32> idx;
  Out<f32> w;
  Scalar<u32> experts, k;
  bool norm_topk = true;

  Grid grid() const { return row_groups(idx.size(), k.value(), 32); }

  void operator()() const {
    const auto row = threadgroup_id(), lane = lane_id();
    const f32 lowest = -std::numeric_limits<f32>::infinity();
    Shared<f32> value(most_experts), chosen_value(most_chosen);
    Shared<u32> open(most_experts);
    Var<f32> top{lowest};
    for (auto e : range(lane, experts, 32)) {
      const auto v = cast<f32>(logits[row * experts + e]);
      value[e] = v;
      open[e] = select(v == v, constant<u32>(1u), constant<u32>(0u));
      top = max(top, v);
    }
    const auto highest = simd_max(top);
    Var<f32> all{0.0f};
    if (!norm_topk) {
      barrier();
      for (auto e : range(lane, experts, 32)) {
        const Val<f32> v = value[e];
        const Val<u32> is_number = open[e];
        all += select(is_number != 0u, exp(v - highest), constant<f32>(0.0f));
      }
    }
    barrier();
    for (auto j : range(k)) {
      // Rounds of argmax over what is still open.
      Var<f32> best{lowest};
      Var<u32> at{no_expert};
      for (auto e : range(lane, experts, 32)) {
        const Val<f32> v = value[e];
        const Val<u32> is_open = open[e];
        if_(is_open != 0u && (v > best || at == no_expert)) {
          best = v;
          at = cast<u32>(e);
        }
      }
      const Val<u32> mine = at;
      const Val<f32> mine_value = best;
      const auto most = simd_max(mine_value);
      const auto winner = simd_min(select(mine != no_expert && mine_value == most, mine, constant<u32>(no_expert)));
      barrier();
      if_(lane == 0) {
        idx[row * k + j] = winner;
        chosen_value[j] = select(winner == no_expert, constant<f32>(lowest), most);
        if_(winner < experts) { open[winner] = 0u; }
      }
      barrier();
    }
    const auto mine = lane < k;
    Var<f32> logit{lowest};
    if_(mine) { logit = chosen_value[lane]; }
    const Val<f32> v = logit;
    const auto weight = select(v > lowest, exp(v - highest), constant<f32>(0.0f));
    const auto chosen = simd_sum(weight), every = simd_sum(all);
    const auto total = norm_topk ? chosen : every;
    if_(mine) { w[row * k + lane] = select(total > 0.0f, weight / total, constant<f32>(0.0f)); }
  }
};

// out[s, h] = x[perm[s], h]: rows in the order of their experts      x: [R, H], perm: [S], out: [S, H]
template <class T>
struct MoePermute {
  In<T> x;
  In<u32> perm;
  Out<T> out;
  Scalar<u32> rows, h;

  void operator()() const {
    const auto i = grid_thread_id();
    const Val<Index> row(perm[i / h]);
    const auto v = x.load_or(row < rows, row * h + i % h, T{});
    out[i] = v;
  }
};

// out[r, h] = sum_j w[r, j] * y[inv_perm[r, j], h], j ascending      w, inv_perm: [R, k], y: [S, H], out: [R, H]
template <class T>
struct MoeUnpermute {
  In<T> y;
  In<u32> inv_perm;
  In<f32> w;
  Out<T> out;
  Scalar<u32> slots, k, h;

  void operator()() const {
    const auto i = grid_thread_id();
    const auto r = i / h, col = i % h;
    Var<f32> sum{0.0f};
    for (auto j : range(k)) {
      const auto at = r * k + j;
      const Val<Index> slot(inv_perm[at]);
      const auto v = y.load_or(slot < slots, slot * h + col, T{});
      sum += w[at] * cast<f32>(v);
    }
    out[i] = cast<T>(sum);
  }
};

namespace {
template <class T>
Case choose(Gen& g, u32 rows, u32 experts, u32 k, bool norm, bool ties) {
  // A few distinct values make ties; else every logit is its own.
  auto logits = ties ? g.from<T>([&](u64 i) { return T(static_cast<f32>((i * 7 + i / experts) % 5) * 0.5f - 1.0f); },
                                 rows, experts)
                     : g.values<T>(rows, experts);
  const auto idx = g.output<u32>(rows, k);
  const auto w = g.output<f32>(rows, k);
  std::vector<u32> chosen;
  std::vector<f64> weights;
  for (u64 r = 0; r < rows; ++r) {
    std::vector<u32> order(experts);
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](u32 a, u32 b) {
      const f64 x = logits.at(r * experts + a), y = logits.at(r * experts + b);
      return x > y || (x == y && a < b);
    });
    f64 total = 0;
    for (u32 e = 0; e < (norm ? k : experts); ++e) total += std::exp(logits.at(r * experts + order[e]));
    for (u32 j = 0; j < k; ++j) {
      chosen.push_back(order[j]);
      weights.push_back(std::exp(logits.at(r * experts + order[j])) / total);
    }
  }
  return Case{MoeRouterTopk<T>{.logits = logits, .idx = idx, .w = w, .experts = experts, .k = k, .norm_topk = norm}}
      .expect_exact("idx", chosen)
      .expect("w", std::move(weights));
}
template <class T>
Case permuted(Gen& g, u32 rows, u32 slots, u32 h) {
  const auto x = g.values<T>(rows, h);
  const auto perm = g.from<u32>([&](u64 i) { return i == 1 ? rows : static_cast<u32>(i * 5 % rows); }, slots);
  const auto out = g.output<T>(slots, h);
  std::vector<f64> expected(out.size());
  for (u64 i = 0; i < expected.size(); ++i)
    if (perm[i / h] < rows) expected[i] = x.at(u64{perm[i / h]} * h + i % h);
  return Case{MoePermute<T>{.x = x, .perm = perm, .out = out, .rows = rows, .h = h}}.expect("out", std::move(expected));
}
template <class T>
Case unpermuted(Gen& g, u32 rows, u32 k, u32 h) {
  const u32 slots = rows * k;
  const auto y = g.values<T>(slots, h);
  const auto inv =
      g.from<u32>([&](u64 i) { return i == 2 ? 0xffffffffu : static_cast<u32>((i * 5 + 1) % slots); }, slots);
  const auto w = g.uniform<f32>(0.0, 1.0, rows, k);
  const auto out = g.output<T>(rows, h);
  std::vector<f64> expected(out.size());
  for (u64 i = 0; i < expected.size(); ++i)
    for (u64 j = 0; j < k; ++j) {
      const u64 at = i / h * k + j;
      if (inv[at] < slots) expected[i] += w.at(at) * y.at(u64{inv[at]} * h + i % h);
    }
  return Case{MoeUnpermute<T>{.y = y, .inv_perm = inv, .w = w, .out = out, .slots = slots, .k = k, .h = h}}.expect(
      "out", std::move(expected));
}
}  // namespace

void register_moe_router(Registry& r) {
  constexpr auto limit = tolerance(1e-5, 1e-5, 1e-5);
  auto k = r.kernel<MoeRouterTopk>("moe_router_topk", "moe", dtypes<f32, f16, bf16>);
  k.doc(
      "idx, w [R,k]: the k largest of logits [R,E] (ties to the smallest index) and their softmax weights; one "
      "simdgroup a row.");
  k.shapes("logits: [..., experts]; idx, w: [..., k]");
  k.test("normalised over the chosen", limit, []<class T>(Gen& g) { return choose<T>(g, 3, 67, 8, true, true); });
  k.test("softmax over all", limit, []<class T>(Gen& g) { return choose<T>(g, 2, 40, 5, false, true); });
  k.test("every expert chosen", limit, []<class T>(Gen& g) { return choose<T>(g, 2, 4, 4, true, true); });
  k.bench("1024 x 128, 8 of them", []<class T>(Gen& g) { return choose<T>(g, 1024, 128, 8, true, false); });
  auto p = r.kernel<MoePermute>("moe_permute", "moe", dtypes<f32, f16, bf16>);
  p.doc("out[S,H] = rows perm[S] of x [R,H]; zeros for an id that is no row.");
  p.shapes("x: [rows, h]; perm: [...]; out: [..., h]");
  p.test("ragged, an id outside", exact_match, []<class T>(Gen& g) { return permuted<T>(g, 7, 17, 33); });
  p.bench("4096 x 2048", []<class T>(Gen& g) { return permuted<T>(g, 1024, 4096, 2048); });
  auto u = r.kernel<MoeUnpermute>("moe_unpermute", "moe", dtypes<f32, f16, bf16>);
  u.doc(
      "out[R,H] = sum over k slots of w[R,k] * y[inv_perm[R,k],H], slots in order; an id that is no slot adds "
      "nothing.");
  u.shapes("y: [slots, h]; inv_perm, w: [..., k]; out: [..., h]");
  u.test("ragged, an id outside", tolerance(1e-5, 2e-3, 1.6e-2),
         []<class T>(Gen& g) { return unpermuted<T>(g, 5, 3, 35); });
  u.bench("1024 x 8 x 2048", []<class T>(Gen& g) { return unpermuted<T>(g, 1024, 8, 2048); });
}

}  // namespace iron::kernels
