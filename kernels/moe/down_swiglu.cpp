// The second half of a mixture of experts for one token: eight experts' gated products, weighted and added in one
// launch.
#include "iron/library.h"
#include "quant/affine_case.h"
#include "quant/qmv.h"
#include "registry.h"

namespace iron::kernels {

// out[n] = sum_s slot_weights[s] * sum_k w[experts[s], n, k] * (silu(gate[s, k]) * up[s, k]), s = 0 .. 7 in that order
// gate, up: [8, K], experts: u32 [8], slot_weights: f32 [8], w: codes [E, N, K], scales, biases: [E, N, K / G], out:
// [N] An id that is no expert reads nothing and adds nothing. K is at most `most`: a slot's products are staged.
template <class T>
struct MoeDownSwiglu {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 slots = 8;

  In<T> gate, up;
  In<u32> experts;
  In<f32> slot_weights;
  In<u32> w;
  In<T> scales, biases;
  Out<T> out;
  Scalar<u32> n, k;
  u32 most = 768;
  QmvSpec spec = {.format = {.bits = 4, .group = 64}};

  Grid grid() const {
    const u32 rows = spec.rows_a_group();
    return {Threadgroups{(n.value() + rows - 1) / rows}, Threads{32 * spec.simdgroups}};
  }

  void operator()() const {
    const Val<Index> rows(n), depth(k);
    const auto n0 = (threadgroup_id() * spec.simdgroups + simdgroup_id()) * spec.rows;
    const Val<Index> matrices = scales.length() / (rows * (depth / spec.format.group));
    const Shared<f32> hidden(most);
    Vars<f32> totals(spec.rows, 0.0f);
    for (auto slot : range(slots)) {
      for (auto i : range(thread_id(), depth, threads())) {
        const auto at = slot * depth + i;
        const auto v = silu(cast<f32>(gate[at])) * cast<f32>(up[at]);
        hidden[i] = v;
      }
      barrier();
      const Val<Index> expert(experts[slot]);
      Vars<f32> sums(spec.rows, 0.0f);
      if_(expert < matrices) {
        affine_dots<T>(
            spec, w, scales, biases, k, [&](u32 r) { return expert * rows + min(n0 + r, rows - 1); },
            [&](u32, const Val<Index>& first, u32 j) { return Val<f32>(hidden[first + j]); }, sums);
      }
      const auto weight = slot_weights[slot];
      for (u32 r = 0; r < spec.rows; ++r) {
        const Val<f32> before = totals[r], own = sums[r];
        totals[r] = select(expert < matrices, fma(weight, own, before), before);
      }
      barrier();
    }
    for (u32 r = 0; r < spec.rows; ++r) {
      const auto total = simd_sum(totals[r]);
      if_(lane_id() == 0 && n0 + r < rows) { out[n0 + r] = cast<T>(total); }
    }
  }
};

namespace {
template <class T>
Case accumulated(Gen& g, u32 n, u32 k, u32 matrices, const std::vector<u32>& chosen) {
  constexpr u32 slots = MoeDownSwiglu<T>::slots;
  const auto gate = g.normal<T>(2.0, slots, k), up = g.values<T>(slots, k);
  const auto experts = g.from<u32>([&](u64 s) { return chosen[s]; }, slots);
  const auto weights = g.uniform<f32>(0.02, 0.3, slots);
  const auto w = packed_matrix<T>(g, 4, 64, u64{matrices} * n, k);
  const auto out = g.output<T>(n);
  std::vector<f64> want(n);
  u64 used = 0;
  for (u64 s = 0; s < slots; ++s) {
    if (chosen[s] >= matrices) continue;
    ++used;
    for (u64 r = 0; r < n; ++r)
      for (u64 i = 0; i < k; ++i) {
        const f64 z = gate.at(s * k + i);
        want[r] +=
            weights.at(s) * w.values[(chosen[s] * n + r) * k + i] * (z / (1.0 + std::exp(-z)) * up.at(s * k + i));
      }
  }
  return Case{MoeDownSwiglu<T>{.gate = gate,
                               .up = up,
                               .experts = experts,
                               .slot_weights = weights,
                               .w = w.words,
                               .scales = w.scales,
                               .biases = w.biases,
                               .out = out,
                               .n = n,
                               .k = k}}
      .expect("out", std::move(want))
      .computes(2.0 * n * k * static_cast<f64>(used))
      .moves(used * n * k * (4 * 64 + 2 * 8 * sizeof(T)) / 512 + sizeof(T) * (2 * slots * k + n));
}
}  // namespace

void register_moe_down_swiglu(Registry& r) {
  auto k = r.kernel<MoeDownSwiglu>("moe_down_swiglu_accum_int4_chain8", "moe", dtypes<f32, f16, bf16>);
  k.doc("Eight experts' down projections [E,N,K] by int4 codes of silu(gate) * up, weighted and added in slot order.");
  k.test("experts in no order, one twice", affine_limit,
         []<class T>(Gen& g) { return accumulated<T>(g, 21, 192, 5, {4, 0, 2, 1, 3, 2, 0, 4}); });
  k.test("no experts in some slots", affine_limit,
         []<class T>(Gen& g) { return accumulated<T>(g, 9, 64, 2, {1, 0xffffffffu, 0, 2, 1, 0xffffffffu, 7, 0}); });
  k.test("the longest rows", affine_limit,
         []<class T>(Gen& g) { return accumulated<T>(g, 8, 768, 2, {0, 1, 0, 1, 0, 1, 0, 1}); });
  k.bench("8 of 16 experts of 1024 x 768",
          []<class T>(Gen& g) { return accumulated<T>(g, 1024, 768, 16, {3, 14, 0, 7, 9, 1, 12, 5}); });
}

}  // namespace iron::kernels
