// Functions of one value whose result is the correctly rounded one: compared bit for bit, zeros with their signs.
#include "registry.h"
#include "specials.h"
#include "unary/unary.h"

namespace iron::kernels {
namespace {

struct Row {
  const char *name, *doc;
  UnaryOp op;
  f64 (*oracle)(f64);
};

f64 sign_of(f64 x) { return x > 0 ? 1.0 : x < 0 ? -1.0 : 0.0; }
// Half to even without the host's rounding mode: the distance to the floor decides.
f64 half_even(f64 x) {
  const f64 down = std::floor(x), over = x - down;
  if (!std::isfinite(x)) return x;
  const bool up = over > 0.5 || (over == 0.5 && std::fmod(down, 2.0) != 0.0);
  return std::copysign(up ? down + 1.0 : down, x);
}

const Row rows[] = {
    {"abs", "|x|, elementwise.", UnaryOp::abs, [](f64 x) { return std::signbit(x) ? 0.0 - x : x; }},
    {"neg", "-x, elementwise; flips the sign of zeros too.", UnaryOp::neg, [](f64 x) { return -x; }},
    {"sign", "-1, 0 or 1, elementwise; +0 for both zeros.", UnaryOp::sign, sign_of},
    {"floor", "Largest integer not above x, elementwise.", UnaryOp::floor, [](f64 x) { return std::floor(x); }},
    {"ceil", "Smallest integer not below x, elementwise.", UnaryOp::ceil, [](f64 x) { return std::ceil(x); }},
    {"trunc", "x without its fraction, elementwise.", UnaryOp::trunc, [](f64 x) { return std::trunc(x); }},
    {"round", "Nearest integer, ties to even, elementwise.", UnaryOp::round, half_even},
    {"relu", "max(x, 0), elementwise; NaN gives 0.", UnaryOp::relu, [](f64 x) { return x > 0 ? x : 0.0; }},
    {"square", "x * x, elementwise.", UnaryOp::square, [](f64 x) { return x * x; }},
    {"sqrt", "Square root, elementwise, correctly rounded.", UnaryOp::sqrt, [](f64 x) { return std::sqrt(x); }},
    {"recip", "1 / x, elementwise, correctly rounded.", UnaryOp::recip, [](f64 x) { return 1.0 / x; }},
};

// Inputs whose result is NaN are left to the NaN case: NaNs are one class, not one bit pattern.
template <class T>
Case exact_case(UnaryOp op, f64 (*oracle)(f64), const Array<T>& x, Gen& g) {
  std::vector<f64> want(x.size());
  for (u64 i = 0; i < x.size(); ++i) want[i] = oracle(x.at(i));
  const auto y = g.output<T>(x.size());
  return Case{Unary<T>{.x = x, .y = y, .op = op}}.expect_exact("y", rounded_all<T>(want));
}
template <class T>
std::vector<f64> with_result(const std::vector<f64>& inputs, f64 (*oracle)(f64)) {
  std::vector<f64> kept;
  for (const f64 x : inputs)
    if (!std::isnan(oracle(rounded<T>(x)))) kept.push_back(x);
  return kept;
}
template <class T>
Case nan_case(UnaryOp op, f64 result, Gen& g) {
  const auto x = listed<T>(g, {not_a_number, 1.0, not_a_number});
  const auto y = g.output<T>(3);
  const f64 one = op == UnaryOp::neg ? -1.0 : 1.0;
  return Case{Unary<T>{.x = x, .y = y, .op = op}}.expect("y", {result, one, result});
}

// rsqrt is two roundings of f32, so it has a tolerance; infinities and zeros are still exact there.
template <class T>
Case rsqrt_case(const std::vector<f64>& inputs, Gen& g) {
  const auto x = listed<T>(g, inputs);
  const auto y = g.output<T>(inputs.size());
  std::vector<f64> want;
  for (u64 i = 0; i < x.size(); ++i) want.push_back(rounded<T>(1.0 / std::sqrt(x.at(i))));
  return Case{Unary<T>{.x = x, .y = y, .op = UnaryOp::rsqrt}}.expect("y", want);
}

}  // namespace

void register_unary_exact(Registry& r) {
  for (const auto& row : rows) {
    auto k = r.kernel<Unary>(row.name, "unary", dtypes<f32, f16, bf16>, [row](auto& u) { u.op = row.op; });
    k.doc(row.doc);
    k.test("ragged values", exact_match, [row]<class T>(Gen& g) {
      const bool root = row.op == UnaryOp::sqrt;
      return exact_case<T>(row.op, row.oracle, g.uniform<T>(root ? 0.0 : -9.0, 9.0, 1003), g);
    });
    k.test("special values", exact_match, [row]<class T>(Gen& g) {
      return exact_case<T>(row.op, row.oracle, listed<T>(g, with_result<T>(all_specials<T>(), row.oracle)), g);
    });
    k.test("NaN", exact_match,
           [row]<class T>(Gen& g) { return nan_case<T>(row.op, row.op == UnaryOp::relu ? 0.0 : not_a_number, g); });
    k.bench("1M",
            [row]<class T>(Gen& g) { return exact_case<T>(row.op, row.oracle, g.uniform<T>(0.125, 9.0, 1 << 20), g); });
  }
  auto k = r.kernel<Unary>("rsqrt", "unary", dtypes<f32, f16, bf16>, [](auto& u) { u.op = UnaryOp::rsqrt; });
  k.doc("1 / sqrt(x), elementwise: two roundings in f32, never the device's approximation.");
  k.test("ragged values", one_rounding, []<class T>(Gen& g) {
    std::vector<f64> x;
    for (int i = 0; i < 1003; ++i) x.push_back(0.03 + 20.0 * g.unit());
    return rsqrt_case<T>(x, g);
  });
  k.test("special values", one_rounding, []<class T>(Gen& g) {
    auto x = all_specials<T>();
    x.push_back(not_a_number);
    return rsqrt_case<T>(x, g);
  });
  k.bench("1M", []<class T>(Gen& g) {
    std::vector<f64> x;
    for (int i = 0; i < 1 << 20; ++i) x.push_back(0.03 + 20.0 * g.unit());
    return rsqrt_case<T>(x, g);
  });

  auto widen =
      r.kernel<UnaryToF32>("cast_to_f32", "unary", dtypes<f32, f16, bf16>, [](auto& u) { u.op = UnaryOp::identity; });
  widen.doc("x as f32, exactly, elementwise.");
  const auto widening = []<class T>(const Array<T>& x, Gen& g) {
    std::vector<f32> want;
    for (u64 i = 0; i < x.size(); ++i) want.push_back(static_cast<f32>(x.at(i)));
    const auto y = g.output<f32>(x.size());
    return Case{UnaryToF32<T>{.x = x, .y = y, .op = UnaryOp::identity}}.expect_exact("y", want);
  };
  widen.test("ragged values", exact_match, [widening]<class T>(Gen& g) { return widening(g.values<T>(1003), g); });
  widen.test("special values", exact_match,
             [widening]<class T>(Gen& g) { return widening(listed<T>(g, all_specials<T>()), g); });
  widen.bench("1M", [widening]<class T>(Gen& g) { return widening(g.values<T>(1 << 20), g); });
}

}  // namespace iron::kernels
