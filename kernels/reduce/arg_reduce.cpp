// Position of the largest or smallest element: the smallest index on ties, NaN never chosen.
#include "iron/dsl.h"
#include "iron/library.h"

namespace iron::kernels {

namespace {

constexpr u32 no_index = 0xffffffffu;
constexpr f32 infinity = std::numeric_limits<f32>::infinity();

// The best element so far of one thread that sees its indices in ascending order.
class Best {
 public:
  explicit Best(bool smallest) : smallest_(smallest), value_(smallest ? infinity : -infinity) {}

  void see(const Val<f32>& v, const Val<u32>& index) {
    const Val<f32> best = value_;
    const Val<u32> at = index_;
    const auto beyond = smallest_ ? v < best : v > best;
    const auto first = at == no_index && v == best;  // an infinity equal to the start
    const auto better = beyond || first;
    value_ = select<f32>(better, v, best);
    index_ = select<u32>(better, index, at);
  }
  // Over the threadgroup; 0 if every element is NaN.
  Val<u32> join() const {
    const Val<f32> own = value_;
    const Val<u32> at = index_;
    const auto best = smallest_ ? threadgroup_min(own) : threadgroup_max(own);
    const auto index = threadgroup_min(select<u32>(own == best, at, no_index));
    return select<u32>(index == no_index, 0u, index);
  }

 private:
  bool smallest_;
  Var<f32> value_;
  Var<u32> index_{no_index};
};

// out[r] = min { i : x[r, i] = max_i x[r, i] }        x: [rows, n], out: [rows] u32; argmin likewise
template <class T>
struct ArgReduce {
  static constexpr Mode mode = Mode::Threadgroup;
  struct Spec {
    bool smallest = false;
  } spec;

  In<T> x;
  Out<u32> out;
  Scalar<u32> n;

  Grid grid() const { return {Threadgroups{static_cast<u32>(out.size())}, Threads{256}}; }

  void operator()() const {
    const auto row = threadgroup_id() * n;
    Best best(spec.smallest);
    for (auto i : range(thread_id(), n, threads())) best.see(cast<f32>(x[row + i]), cast<u32>(i));
    const auto index = best.join();
    if_(thread_id() == 0u) { out[threadgroup_id()] = index; }
  }
};

// The same for one long vector of logits: 1024 threads, four loads of a thread in flight.        x: [n], out: [1] u32
template <class T>
struct ArgmaxVocab {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 loads = 4;

  In<T> x;
  Out<u32> out;
  Scalar<u32> n;

  Grid grid() const { return {Threadgroups{1}, Threads{1024}}; }

  void operator()() const {
    Best best(false);
    for (auto base : range(thread_id(), n, threads() * loads)) {
      for (u32 k = 0; k < loads; ++k) {
        const auto i = base + threads() * k;
        const auto v = x.load_or(i < n, i, T(std::numeric_limits<f32>::quiet_NaN()));
        best.see(cast<f32>(v), cast<u32>(i));
      }
    }
    const auto index = best.join();
    if_(thread_id() == 0u) { out[0] = index; }
  }
};

template <class T>
std::vector<u32> oracle(const Array<T>& x, u64 n, bool smallest) {
  std::vector<u32> out(x.size() / n);
  for (u64 r = 0; r < out.size(); ++r) {
    u64 at = n;
    for (u64 i = 0; i < n; ++i) {
      const f64 v = x.at(r * n + i);
      if (std::isnan(v)) continue;
      if (at == n || (smallest ? v < x.at(r * n + at) : v > x.at(r * n + at))) at = i;
    }
    out[r] = at == n ? 0u : static_cast<u32>(at);
  }
  return out;
}
template <class T>
Case arg(Gen& g, const Array<T>& x, u32 n, bool smallest) {
  const auto out = g.output<u32>(x.size() / n);
  return Case{ArgReduce<T>{.spec = {smallest}, .x = x, .out = out, .n = n}}.expect_exact("out", oracle(x, n, smallest));
}
template <class T>
Case vocabulary(Gen& g, const Array<T>& x) {
  const auto out = g.output<u32>(1);
  const auto n = static_cast<u32>(x.size());
  return Case{ArgmaxVocab<T>{.x = x, .out = out, .n = n}}.expect_exact("out", oracle(x, n, false));
}

// Few distinct values: ties between threads and within one.
template <class T>
Array<T> tied(Gen& g, u64 count) {
  return g.from<T>([&](u64) { return static_cast<f32>(g.next() % 3) - 1.0f; }, count);
}
// Rows of 300: the infinity that no value beats, alone; NaN among values; NaN alone; the other infinity late; signed
// zeros.
template <class T>
Array<T> special_rows(Gen& g, bool smallest) {
  constexpr u32 n = 300;
  const f64 worst = smallest ? f64{infinity} : -f64{infinity}, nan = std::numeric_limits<f64>::quiet_NaN();
  auto x = g.values<T>(5, n);
  for (u32 i = 0; i < n; ++i) {
    x[i] = T(i < 5 ? nan : worst);
    x[2 * n + i] = T(nan);
    x[4 * n + i] = T(i % 2 == 0 ? (smallest ? 0.0 : -0.0) : (smallest ? -0.0 : 0.0));
  }
  for (u32 i = 0; i < n; i += 2) x[n + i] = T(nan);
  x[3 * n + 290] = T(-worst);
  x[3 * n + 299] = T(-worst);
  return x;
}

}  // namespace

void register_arg_reduce(Registry& r) {
  for (const bool smallest : {false, true}) {
    auto k = r.kernel<ArgReduce>(smallest ? "argmin" : "argmax", "reduce", dtypes<f32, f16, bf16>,
                                 [smallest](auto& kernel) { kernel.spec.smallest = smallest; });
    k.doc(std::string("Index of the ") + (smallest ? "smallest" : "largest") +
          " element of each row, [rows, n] to u32 [rows]: the first on ties. NaN is never chosen; a row of NaN alone "
          "gives 0.");
    k.shapes("x: [..., n]; out: [...]");
    k.test("ragged rows", exact_match,
           [smallest]<class T>(Gen& g) { return arg(g, g.values<T>(6, 1001), 1001, smallest); });
    k.test("ties", exact_match, [smallest]<class T>(Gen& g) { return arg(g, tied<T>(g, 9 * 519), 519, smallest); });
    k.test("one element", exact_match, [smallest]<class T>(Gen& g) { return arg(g, g.values<T>(4, 1), 1, smallest); });
    k.test("NaN and infinities", exact_match,
           [smallest]<class T>(Gen& g) { return arg(g, special_rows<T>(g, smallest), 300, smallest); });
    k.bench("256 x 4096", [smallest]<class T>(Gen& g) { return arg(g, g.values<T>(256, 4096), 4096, smallest); });
  }
  auto v = r.kernel<ArgmaxVocab>("argmax_vocab", "reduce", dtypes<f32, f16, bf16>);
  v.doc("Index of the largest of n logits, by one threadgroup of 1024 threads: the first on ties, NaN never chosen.");
  v.shapes("x: [n]; out: [1]");
  v.test("several trips", exact_match, []<class T>(Gen& g) { return vocabulary(g, g.values<T>(9001)); });
  v.test("ties", exact_match, []<class T>(Gen& g) { return vocabulary(g, tied<T>(g, 4099)); });
  v.test("the last element", exact_match, []<class T>(Gen& g) {
    auto x = g.uniform<T>(-9.0, -1.0, 5003);
    x[5002] = T(-0.5);
    return vocabulary(g, x);
  });
  v.test("-inf alone", exact_match, []<class T>(Gen& g) {
    return vocabulary(g,
                      g.from<T>([](u64 i) { return i < 3 ? std::numeric_limits<f32>::quiet_NaN() : -infinity; }, 100));
  });
  v.bench("151936", []<class T>(Gen& g) { return vocabulary(g, g.values<T>(151936)); });
}

}  // namespace iron::kernels
