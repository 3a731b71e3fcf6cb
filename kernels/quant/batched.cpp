// Three or four affine-quantised matrices that share their input, in one launch: the grid's third axis is the matrix.
#include "iron/library.h"
#include "quant/affine_case.h"
#include "quant/qmv.h"
#include "registry.h"

namespace iron::kernels {

namespace {
/// One matrix of the launch: its threadgroup's rows times spec.vectors rows of x. store(vector, row, sum).
template <class T, class Store>
void project(const QmvSpec& spec, const In<u32>& w, const In<T>& scales, const In<T>& biases, const In<T>& x,
             const Scalar<u32>& m, const Scalar<u32>& n, const Scalar<u32>& k, Store store) {
  const auto n0 = (threadgroup_id() * spec.simdgroups + simdgroup_id()) * spec.rows;
  const auto m0 = threadgroup_id(Axis::y) * spec.vectors;
  const Val<Index> rows(n), vectors(m);
  Vars<f32> sums(spec.rows * spec.vectors, 0.0f);
  affine_dots<T>(
      spec, w, scales, biases, k, [&](u32 r) { return min(n0 + r, rows - 1); },
      input_rows(x, k, [&](u32 v) { return min(m0 + v, vectors - 1); }), sums);
  for (u32 r = 0; r < spec.rows; ++r)
    for (u32 v = 0; v < spec.vectors; ++v) {
      const auto total = simd_sum(sums[r * spec.vectors + v]);
      if_(lane_id() == 0 && n0 + r < rows && m0 + v < vectors) { store(m0 + v, n0 + r, cast<T>(total)); }
    }
}
Grid project_grid(const QmvSpec& spec, u32 rows, u32 vectors, u32 matrices) {
  const u32 group = spec.rows_a_group();
  return {Threadgroups{(rows + group - 1) / group, (vectors + spec.vectors - 1) / spec.vectors, matrices},
          Threads{32 * spec.simdgroups}};
}
}  // namespace

// out = [W_q x; W_k x; W_v x], one after the other      x: [K], out: [n_q + n_k + n_v]; weights as in qmv
template <class T>
struct BatchedQkvQgemv {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x;
  In<u32> wq;
  In<T> sq, bq;
  In<u32> wk;
  In<T> sk, bk;
  In<u32> wv;
  In<T> sv, bv;
  Out<T> out;
  Scalar<u32> n_q, n_k, n_v, k;
  QmvSpec spec;

  Grid grid() const { return project_grid(spec, std::max({n_q.value(), n_k.value(), n_v.value()}), 1, 3); }

  void operator()() const {
    const auto part = [&](const In<u32>& w, const In<T>& s, const In<T>& b, const Scalar<u32>& n,
                          const Val<Index>& first) {
      project<T>(spec, w, s, b, x, Scalar<u32>(constant<u32>(1u)), n, k,
                 [&](const Val<Index>&, const Val<Index>& row, const Val<T>& v) { out[first + row] = v; });
    };
    const auto matrix = threadgroup_id(Axis::z);
    if_(matrix == 0) { part(wq, sq, bq, n_q, constant<Index>(0)); }
    else if_(matrix == 1) {
      part(wk, sk, bk, n_k, cast<Index>(n_q));
    }
    else {
      part(wv, sv, bv, n_v, cast<Index>(n_q) + n_k);
    }
  }
};

// out_i[m] = W_i x[m] for three matrices, or four where there is a w3      x: [M, K], out_i: [M, n_i]
template <class T>
struct BatchedQmm {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> x;
  In<u32> w0;
  In<T> s0, b0;
  In<u32> w1;
  In<T> s1, b1;
  In<u32> w2;
  In<T> s2, b2;
  Out<T> out0, out1, out2;
  Scalar<u32> m, n0, n1, n2, n3, k;  ///< n3: 0 without a w3
  Optional<In<u32>> w3 = {};
  Optional<In<T>> s3 = {}, b3 = {};
  Optional<Out<T>> out3 = {};
  QmvSpec spec = {};

  Grid grid() const {
    const u32 rows = std::max({n0.value(), n1.value(), n2.value(), n3.value()});
    return project_grid(spec, rows, m.value(), w3 ? 4 : 3);
  }

  void operator()() const {
    const auto part = [&](const In<u32>& w, const In<T>& s, const In<T>& b, const Scalar<u32>& n, const Out<T>& out) {
      project<T>(spec, w, s, b, x, m, n, k,
                 [&](const Val<Index>& vector, const Val<Index>& row, const Val<T>& v) { out[vector * n + row] = v; });
    };
    const auto matrix = threadgroup_id(Axis::z);
    if_(matrix == 0) { part(w0, s0, b0, n0, out0); }
    else if_(matrix == 1) {
      part(w1, s1, b1, n1, out1);
    }
    else if_(matrix == 2) {
      part(w2, s2, b2, n2, out2);
    }
    else {
      if (w3) part(*w3, *s3, *b3, n3, *out3);
    }
  }
};

namespace {
constexpr auto types = dtypes<f32, f16, bf16>;

template <class T>
std::vector<PackedMatrix<T>> matrices(Gen& g, const QmvSpec& spec, const std::vector<u32>& rows, u32 k) {
  std::vector<PackedMatrix<T>> all;
  for (const u32 n : rows) all.push_back(packed_matrix<T>(g, spec.format.bits, spec.format.group, n, k));
  return all;
}
f64 work(const std::vector<u32>& rows, u32 m, u32 k) {
  f64 n = 0;
  for (const u32 r : rows) n += r;
  return 2.0 * n * m * k;
}

template <class T>
Case qkv_gemv(Gen& g, const QmvSpec& spec, const std::vector<u32>& n, u32 k) {
  const auto w = matrices<T>(g, spec, n, k);
  const auto x = g.values<T>(k);
  const auto out = g.output<T>(n[0] + n[1] + n[2]);
  std::vector<f64> want;
  for (u32 i = 0; i < 3; ++i) {
    const auto part = affine_product(w[i].values, x, 1, n[i], k);
    want.insert(want.end(), part.begin(), part.end());
  }
  return Case{BatchedQkvQgemv<T>{.x = x,
                                 .wq = w[0].words,
                                 .sq = w[0].scales,
                                 .bq = w[0].biases,
                                 .wk = w[1].words,
                                 .sk = w[1].scales,
                                 .bk = w[1].biases,
                                 .wv = w[2].words,
                                 .sv = w[2].scales,
                                 .bv = w[2].biases,
                                 .out = out,
                                 .n_q = n[0],
                                 .n_k = n[1],
                                 .n_v = n[2],
                                 .k = k,
                                 .spec = spec}}
      .expect("out", std::move(want))
      .computes(work(n, 1, k));
}
// Three sizes, or four.
template <class T>
Case separate(Gen& g, const QmvSpec& spec, u32 m, const std::vector<u32>& n, u32 k) {
  const auto w = matrices<T>(g, spec, n, k);
  const auto x = g.values<T>(m, k);
  const bool four = n.size() == 4;
  const auto out0 = g.output<T>(m, n[0]), out1 = g.output<T>(m, n[1]), out2 = g.output<T>(m, n[2]),
             out3 = g.output<T>(m, four ? n[3] : 1);
  BatchedQmm<T> kernel{.x = x,
                       .w0 = w[0].words,
                       .s0 = w[0].scales,
                       .b0 = w[0].biases,
                       .w1 = w[1].words,
                       .s1 = w[1].scales,
                       .b1 = w[1].biases,
                       .w2 = w[2].words,
                       .s2 = w[2].scales,
                       .b2 = w[2].biases,
                       .out0 = out0,
                       .out1 = out1,
                       .out2 = out2,
                       .m = m,
                       .n0 = n[0],
                       .n1 = n[1],
                       .n2 = n[2],
                       .n3 = four ? n[3] : 0,
                       .k = k,
                       .spec = spec};
  if (four) {
    kernel.w3 = In<u32>(w[3].words);
    kernel.s3 = In<T>(w[3].scales), kernel.b3 = In<T>(w[3].biases);
    kernel.out3 = Out<T>(out3);
  }
  Case c{kernel};
  c.expect("out0", affine_product(w[0].values, x, m, n[0], k))
      .expect("out1", affine_product(w[1].values, x, m, n[1], k));
  c.expect("out2", affine_product(w[2].values, x, m, n[2], k));
  if (four) c.expect("out3", affine_product(w[3].values, x, m, n[3], k));
  return c.computes(work(n, m, k));
}
}  // namespace

void register_batched_projections(Registry& r) {
  const auto with_fourth = []<class T>(BatchedQmm<T>& x) {
    x.w3 = In<u32>(BufferRef{}), x.s3 = In<T>(BufferRef{}), x.b3 = In<T>(BufferRef{});
    x.out3 = Out<T>(BufferRef{});
  };
  const QmvSpec plain{.format = {.bits = 4, .group = 32}, .per_lane = 8, .rows = 1, .simdgroups = 4};
  // Three or four bodies in one kernel: each is kept small, two rows a simdgroup.
  const QmvSpec fast{.format = {.bits = 4, .group = 64}, .per_lane = 8, .rows = 2, .simdgroups = 4};
  QmvSpec shared = fast;
  shared.vectors = 2;
  for (const auto& [name, spec] : {std::pair{"batched_qkv_qgemv", plain}, std::pair{"batched_qkv_qgemv_fast", fast}}) {
    auto k = r.kernel<BatchedQkvQgemv>(name, "quant", types, [spec](auto& x) { x.spec = spec; });
    k.doc("Query, key and value projections by int4 codes of one input row, written one after the other; " +
          std::to_string(spec.rows_a_group()) + " rows a threadgroup.");
    k.test("three different ragged sizes", affine_limit,
           [spec]<class T>(Gen& g) { return qkv_gemv<T>(g, spec, {21, 9, 5}, 640); });
    k.test("keys longest, one group", affine_limit,
           [spec]<class T>(Gen& g) { return qkv_gemv<T>(g, spec, {4, 18, 2}, spec.format.group); });
    k.bench("2048 + 512 + 512 x 2048",
            [spec]<class T>(Gen& g) { return qkv_gemv<T>(g, spec, {2048, 512, 512}, 2048); });
  }
  auto q = r.kernel<BatchedQmm>("batched_qkv_qmm_fast", "quant", types, [shared](auto& x) { x.spec = shared; });
  q.doc("Query, key and value projections by int4 codes of M input rows, 2 of which share a pass over the weights.");
  q.test("ragged rows and sizes", affine_limit,
         [shared]<class T>(Gen& g) { return separate<T>(g, shared, 5, {21, 9, 5}, 640); });
  q.test("one row", affine_limit, [shared]<class T>(Gen& g) { return separate<T>(g, shared, 1, {2, 1, 11}, 64); });
  q.test("even rows and sizes", affine_limit,
         [shared]<class T>(Gen& g) { return separate<T>(g, shared, 4, {8, 2, 14}, 128); });
  q.bench("4 rows, 2048 + 512 + 512 x 2048",
          [shared]<class T>(Gen& g) { return separate<T>(g, shared, 4, {2048, 512, 512}, 2048); });

  auto v =
      r.kernel<BatchedQmm>("batched_4_qgemv_fast", "quant", types, [=](auto& x) { with_fourth(x), x.spec = fast; });
  v.doc("Four projections by int4 codes of one input row, each to its own output; 8 rows a threadgroup.");
  v.test("four different ragged sizes", affine_limit,
         [fast]<class T>(Gen& g) { return separate<T>(g, fast, 1, {21, 9, 5, 12}, 640); });
  v.test("several rows, sizes of the other parity", affine_limit,
         [fast]<class T>(Gen& g) { return separate<T>(g, fast, 3, {8, 18, 12, 9}, 128); });
  v.bench("4 x 1024 x 2048",
          [fast]<class T>(Gen& g) { return separate<T>(g, fast, 1, {1024, 1024, 1024, 1024}, 2048); });
  auto m =
      r.kernel<BatchedQmm>("batched_4_qmm_fast", "quant", types, [=](auto& x) { with_fourth(x), x.spec = shared; });
  m.doc("Four projections by int4 codes of M input rows, 2 of which share a pass over the weights.");
  m.test("ragged rows, four different sizes", affine_limit,
         [shared]<class T>(Gen& g) { return separate<T>(g, shared, 3, {1, 19, 8, 10}, 576); });
  m.test("even rows, sizes of the other parity", affine_limit,
         [shared]<class T>(Gen& g) { return separate<T>(g, shared, 4, {8, 2, 13, 5}, 128); });
  m.bench("4 rows, 4 x 1024 x 2048",
          [shared]<class T>(Gen& g) { return separate<T>(g, shared, 4, {1024, 1024, 1024, 1024}, 2048); });
}

}  // namespace iron::kernels
