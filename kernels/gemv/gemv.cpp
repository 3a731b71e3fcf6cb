// Matrix times vector: tests and benches.
#include "gemv/gemv.h"

#include "iron/library.h"

namespace iron::kernels {

namespace {

// mat * (vec, each element times its mask)
template <class T, class Mask>
std::vector<f64> oracle(const Array<T>& mat, const Array<T>& vec, const Mask& mask) {
  const u64 k = vec.size();
  std::vector<f64> out(mat.size() / k);
  for (u64 i = 0; i < mat.size(); ++i) out[i / k] += mat.at(i) * vec.at(i % k) * mask(i % k);
  return out;
}
constexpr auto unmasked = [](u64) { return 1.0; };
// Deviations that keep sums near 1.
template <class T>
Array<T> matrix(Gen& g, u32 m, u32 k) {
  return g.normal<T>(1.0 / std::sqrt(f64{static_cast<f64>(k)}), m, k);
}

template <class T>
Case rows(Gen& g, u32 m, u32 k) {
  const auto mat = matrix<T>(g, m, k), vec = g.values<T>(k);
  const auto out = g.output<T>(m);
  return Case{Gemv<T>{.mat = mat, .vec = vec, .out = out, .k = k}}
      .expect("out", oracle(mat, vec, unmasked))
      .computes(2.0 * m * k);
}
template <class T>
Case warp_rows(Gen& g, u32 m, u32 k) {
  const auto mat = matrix<T>(g, m, k), vec = g.values<T>(k);
  const auto out = g.output<T>(m);
  return Case{GemvWarpRows<T>{.mat = mat, .vec = vec, .out = out, .m = m, .k = k}}
      .expect("out", oracle(mat, vec, unmasked))
      .computes(2.0 * m * k);
}
template <class T>
Case streamed(Gen& g, u32 m, u32 k) {
  const auto mat = matrix<T>(g, m, k), vec = g.values<T>(k);
  const auto out = g.output<T>(m);
  return Case{GemvStream<T>{.mat = mat, .vec = vec, .out = out, .m = m, .k = k}}
      .expect("out", oracle(mat, vec, unmasked))
      .computes(2.0 * m * k);
}
template <class T>
Case masked(Gen& g, u32 m, u32 k) {
  const auto mat = matrix<T>(g, m, k), vec = g.values<T>(k);
  const auto mask = g.from<T>([&](u64) { return static_cast<f32>(g.next() % 3) / 2.0f; }, k);
  const auto out = g.output<T>(m);
  return Case{GemvMasked<T>{.mat = mat, .vec = vec, .mask = mask, .out = out, .k = k}}
      .expect("out", oracle(mat, vec, [&](u64 i) { return mask.at(i); }))
      .computes(3.0 * m * k);
}

}  // namespace

void register_gemv(Registry& r) {
  constexpr auto all = dtypes<f32, f16, bf16>;
  constexpr auto limit = tolerance(1e-5, 2e-3, 1.6e-2);
  auto plain = r.kernel<Gemv>("gemv", "gemv", all);
  plain.doc("Matrix [m, k] times vector [k], a threadgroup of 256 threads a row.");
  plain.shapes("mat: [m, k]; vec: [k]; out: [m]");
  plain.test("ragged rows", limit, []<class T>(Gen& g) { return rows<T>(g, 7, 1003); });
  plain.test("fewer elements than threads", limit, []<class T>(Gen& g) { return rows<T>(g, 5, 37); });
  plain.test("one element", limit, []<class T>(Gen& g) { return rows<T>(g, 3, 1); });
  plain.bench("4096 x 4096", []<class T>(Gen& g) { return rows<T>(g, 4096, 4096); });

  auto warp = r.kernel<GemvWarpRows>("gemv_warp_rows", "gemv", all);
  warp.doc("Matrix [m, k] times vector [k], a simdgroup a row: for short rows and many of them.");
  warp.shapes("mat: [m, k]; vec: [k]; out: [m]");
  warp.test("ragged rows", limit, []<class T>(Gen& g) { return warp_rows<T>(g, 13, 325); });
  warp.test("whole steps only", limit, []<class T>(Gen& g) { return warp_rows<T>(g, 8, 256); });
  warp.test("tail only", limit, []<class T>(Gen& g) { return warp_rows<T>(g, 9, 77); });
  warp.bench("10240 x 320", []<class T>(Gen& g) { return warp_rows<T>(g, 10240, 320); });

  auto stream = r.kernel<GemvStream>("gemv_stream", "gemv", all);
  stream.doc(
      "Matrix [m, k] times vector [k], 16 bytes an access, a threadgroup of 256 threads a row; rows of "
      "whole 16 bytes.");
  stream.shapes("mat: [m, k]; vec: [k]; out: [m]");
  stream.test("whole steps and a part", limit, []<class T>(Gen& g) { return streamed<T>(g, 5, 8192 + 3080); });
  stream.test("a part of the threads", limit, []<class T>(Gen& g) { return streamed<T>(g, 7, 328); });
  stream.test("one access", limit, []<class T>(Gen& g) { return streamed<T>(g, 3, 16 / sizeof(T)); });
  const char* const where = "H200, bf16 8192 x 8192, microseconds beside 31.6";
  stream.rejected("several rows a threadgroup share what they read of the vector", "2 rows 33.4 to 35.6, 4 rows 37.6",
                  where);
  stream.rejected("more accesses a turn", "4: 32.1, 8 with 4 simdgroups: 32.4", where);
  stream.bench("4096 x 4096", []<class T>(Gen& g) { return streamed<T>(g, 4096, 4096); });

  auto mask = r.kernel<GemvMasked>("gemv_masked", "gemv", all);
  mask.doc("Matrix [m, k] times vector [k] times mask [k], a threadgroup of 256 threads a row.");
  mask.shapes("mat: [m, k]; vec, mask: [k]; out: [m]");
  mask.test("ragged rows", limit, []<class T>(Gen& g) { return masked<T>(g, 7, 1003); });
  mask.test("fewer elements than threads", limit, []<class T>(Gen& g) { return masked<T>(g, 5, 37); });
  mask.bench("4096 x 4096", []<class T>(Gen& g) { return masked<T>(g, 4096, 4096); });
}

}  // namespace iron::kernels
