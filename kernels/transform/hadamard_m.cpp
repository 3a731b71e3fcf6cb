// Hadamard matrices of 12, 20 and 28 rows: with those of 2^k rows they give sizes such as 12 * 2^k.
#include <algorithm>

#include "iron/dsl.h"
#include "iron/library.h"
#include "registry.h"

namespace iron::kernels {

namespace {

/// Whether a is a square modulo the odd prime p: 1, -1, or 0 for 0.
constexpr int legendre(u32 a, u32 p) {
  if (a % p == 0) return 0;
  for (u32 x = 1; x < p; ++x)
    if (x * x % p == a % p) return 1;
  return -1;
}
/// Element (i, j) of the matrix of m rows (Paley 1933): for m = 12 and 20 his first construction over the field of
/// m - 1, for m = 28 the second over the field of 13.
constexpr int hadamard_sign(u32 m, u32 i, u32 j) {
  if (m != 28) {
    const u32 q = m - 1;
    if (i == 0) return 1;
    if (j == 0) return -1;
    return i == j ? 1 : legendre(i + q - j, q);
  }
  // A symmetric conference matrix C of 14 rows: [C + I, C - I; C - I, -C - I].
  constexpr u32 q = 13, half = q + 1;
  const u32 a = i % half, b = j % half;
  const int c = a == b ? 0 : a == 0 || b == 0 ? 1 : legendre(a + q - b, q), unit = a == b ? 1 : 0;
  if (i < half) return j < half ? c + unit : c - unit;
  return j < half ? c - unit : -c - unit;
}
/// H H^T = m I, which is what makes it a Hadamard matrix.
constexpr bool orthogonal(u32 m) {
  for (u32 a = 0; a < m; ++a)
    for (u32 b = a; b < m; ++b) {
      int dot = 0;
      for (u32 j = 0; j < m; ++j) dot += hadamard_sign(m, a, j) * hadamard_sign(m, b, j);
      if (dot != (a == b ? static_cast<int>(m) : 0)) return false;
    }
  return true;
}

// y[r, i, c] = scale * sum_j H[i, j] x[r, j, c]        x, y: [rows, m, inner]; inner is 1 for the transform of rows
// A thread an element; terms from the first to the last in f32, one rounding at the store.
template <class T>
struct HadamardM {
  static constexpr Mode mode = Mode::Grid3D;

  In<T> x;
  Out<T> y;
  Scalar<u32> inner;
  Scalar<f32> scale;
  u32 m = 12;

  // Short rows lie along the threads of a group as well.
  Grid grid() const {
    const u32 n = std::max(inner.value(), 1u), wide = std::min(n, 32u), tall = 32 / wide;
    return {Threadgroups{(n + wide - 1) / wide, (m + tall - 1) / tall,
                         static_cast<u32>(y.size() / (u64{std::max(u32{m}, 1u)} * n))},
            Threads{wide, tall}};
  }

  void operator()() const {
    const auto c = grid_position(Axis::x), line = grid_position(Axis::y), row = grid_position(Axis::z);
    const auto i = cast<u32>(line);
    if_(c < inner && line < m) {
      std::vector<Val<f32>> sum;
      for (u32 j = 0; j < m; ++j) {
        u32 negative = 0;  // bit i: the sign of H[i, j]
        for (u32 n = 0; n < m; ++n) negative |= (hadamard_sign(m, n, j) < 0 ? 1u : 0u) << n;
        const auto v = cast<f32>(x[(row * m + j) * inner + c]);
        const Val<f32> term = select((constant<u32>(negative) >> i & 1u) != 0u, -v, v);
        sum.push_back(j == 0 ? term : Val<f32>(sum.back() + term));
      }
      y[(row * m + line) * inner + c] = cast<T>(sum.back() * scale);
    }
  }
};

template <class T>
Case transform(Gen& g, u32 rows, u32 m, u32 inner) {
  const auto x = g.values<T>(rows, m, inner);
  const auto y = g.output<T>(rows, m, inner);
  const auto scale = static_cast<f32>(1.0 / std::sqrt(static_cast<f64>(m)));
  std::vector<int> h(m * m);
  for (u32 i = 0; i < m * m; ++i) h[i] = hadamard_sign(m, i / m, i % m);
  std::vector<f64> want(x.size());
  for (u64 r = 0; r < rows; ++r)
    for (u64 i = 0; i < m; ++i)
      for (u64 j = 0; j < m; ++j)
        for (u64 c = 0; c < inner; ++c)
          want[(r * m + i) * inner + c] += f64{scale} * h[i * m + j] * x.at((r * m + j) * inner + c);
  return Case{HadamardM<T>{.x = x, .y = y, .inner = inner, .scale = scale, .m = m}}
      .expect("y", std::move(want))
      .computes(static_cast<f64>(x.size()) * m);
}
}  // namespace

void register_hadamard_m(Registry& r) {
  static_assert(orthogonal(12) && orthogonal(20) && orthogonal(28));
  for (const u32 m : {12u, 20u, 28u}) {
    auto k = r.kernel<HadamardM>("hadamard_m" + std::to_string(m), "transform", dtypes<f32, f16, bf16>,
                                 [m](auto& h) { h.m = m; });
    k.doc("Scaled Hadamard transform (Paley) along the middle axis of [rows, " + std::to_string(m) + ", inner].");
    k.test("rows", tolerance(1e-5, 2e-3, 1.6e-2), [m]<class T>(Gen& g) { return transform<T>(g, 7, m, 1); });
    k.test("along the middle axis", tolerance(1e-5, 2e-3, 1.6e-2),
           [m]<class T>(Gen& g) { return transform<T>(g, 3, m, 13); });
    k.bench("16384 rows", [m]<class T>(Gen& g) { return transform<T>(g, 16384, m, 1); });
  }
}

}  // namespace iron::kernels
