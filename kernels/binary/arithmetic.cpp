// Functions of two values, elementwise, and the pair of sum and product.
#include "binary/binary.h"
#include "registry.h"
#include "specials.h"

namespace iron::kernels {

Val<f32> apply(BinaryOp op, const Val<f32>& a, const Val<f32>& b) {
  switch (op) {
    case BinaryOp::add:
      return a + b;
    case BinaryOp::mul:
      return a * b;
    case BinaryOp::sub:
      return a - b;
    case BinaryOp::div:
      return a / b;
    case BinaryOp::max:
      return max(a, b);
    case BinaryOp::min:
      return min(a, b);
    case BinaryOp::pow:
      return pow(a, b);
    case BinaryOp::atan2:
      return atan2(a, b);
    case BinaryOp::remainder:
      return remainder(a, b);
    case BinaryOp::logaddexp: {
      const Val<f32> top = max(a, b), distance = abs(a - b);
      // Equal infinities have no distance; a NaN must not vanish in the maximum.
      const Val<f32> sum = top + log1p(exp(-distance));
      return select(a == b, top + 0.6931471805599453f, sum);
    }
  }
  throw Error("D16", "an unknown function of two values", "use a member of BinaryOp");
}

namespace {

// c = a + b, d = a * b        a, b, c, d: n elements
template <class T>
struct BinaryTwo {
  In<T> a, b;
  Out<T> c, d;

  void operator()() const {
    const auto i = grid_thread_id();
    const auto x = cast<f32>(a[i]), y = cast<f32>(b[i]);
    c[i] = cast<T>(x + y);
    d[i] = cast<T>(x * y);
  }
};

struct Row {
  const char *name, *doc;
  BinaryOp op;
  f64 (*oracle)(f64, f64);
  bool exact;
  f64 low_a, high_a, low_b, high_b;
};

// Neither argument wins by its place: zeros are ordered by sign, one NaN gives the other operand.
f64 larger(f64 a, f64 b) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) ? b : a;
  if (a == b) return std::signbit(a) ? b : a;
  return a > b ? a : b;
}
f64 smaller(f64 a, f64 b) { return -larger(-a, -b); }
f64 log_sum(f64 a, f64 b) {
  if (std::isnan(a) || std::isnan(b)) return not_a_number;
  const f64 top = a > b ? a : b;
  return std::isinf(top) ? top : top + std::log(std::exp(a - top) + std::exp(b - top));
}

const Row rows[] = {
    {"add", "a + b, elementwise.", BinaryOp::add, [](f64 a, f64 b) { return a + b; }, true, -9, 9, -9, 9},
    {"mul", "a * b, elementwise.", BinaryOp::mul, [](f64 a, f64 b) { return a * b; }, true, -9, 9, -9, 9},
    {"sub", "a - b, elementwise.", BinaryOp::sub, [](f64 a, f64 b) { return a - b; }, true, -9, 9, -9, 9},
    {"div", "a / b, elementwise, correctly rounded.", BinaryOp::div, [](f64 a, f64 b) { return a / b; }, true, -9, 9,
     -9, 9},
    {"max", "The larger of a and b, elementwise; the other for one NaN; max(-0, +0) = +0.", BinaryOp::max, larger, true,
     -9, 9, -9, 9},
    {"min", "The smaller of a and b, elementwise; the other for one NaN; min(-0, +0) = -0.", BinaryOp::min, smaller,
     true, -9, 9, -9, 9},
    {"pow", "a^b, elementwise, with the special cases of IEEE 754.", BinaryOp::pow,
     [](f64 a, f64 b) { return std::pow(a, b); }, false, 0.05, 9, -4, 4},
    {"atan2", "Angle of the point (b, a), elementwise.", BinaryOp::atan2, [](f64 a, f64 b) { return std::atan2(a, b); },
     false, -9, 9, -9, 9},
    {"remainder", "a - trunc(a / b) b, elementwise, exact, with the sign of a (fmod).", BinaryOp::remainder,
     [](f64 a, f64 b) { return std::fmod(a, b); }, true, -90, 90, -4, 4},
    {"logaddexp", "log(e^a + e^b), elementwise, as max(a, b) + log1p(e^-|a - b|).", BinaryOp::logaddexp, log_sum, false,
     -9, 9, -9, 9},
};

// Exact functions are compared bit for bit, but for NaN, which is one class.
template <class T>
Case compare(const Row& row, const Array<T>& a, const Array<T>& b, Gen& g) {
  std::vector<f64> want(a.size());
  bool nan = false;
  for (u64 i = 0; i < a.size(); ++i) {
    want[i] = rounded<T>(row.oracle(a.at(i), b.at(i)));
    nan |= std::isnan(want[i]);
  }
  const auto c = g.output<T>(a.size());
  Case made{Binary<T>{.a = a, .b = b, .c = c, .op = row.op}};
  if (row.exact && !nan) return made.expect_exact("c", rounded_all<T>(want));
  return made.expect("c", want);
}
// All pairs of special values, those with a NaN result apart from the others, which are compared with their signs.
template <class T>
Case pairs(const Row& row, bool with_nan, Gen& g) {
  auto v = all_specials<T>();
  v.push_back(not_a_number);
  std::vector<f64> left, right;
  for (const f64 a : v)
    for (const f64 b : v) {
      const f64 result = row.oracle(rounded<T>(a), rounded<T>(b));
      if (std::isnan(result) == with_nan) left.push_back(a), right.push_back(b);
    }
  if (left.empty()) left = right = {not_a_number};  // max and min: two NaNs
  return compare(row, listed<T>(g, left), listed<T>(g, right), g);
}

template <class T>
Case two(Gen& g, u64 n) {
  const auto a = g.values<T>(n), b = g.values<T>(n);
  const auto c = g.output<T>(n), d = g.output<T>(n);
  std::vector<f64> sum(n), product(n);
  for (u64 i = 0; i < n; ++i) sum[i] = a.at(i) + b.at(i), product[i] = a.at(i) * b.at(i);
  return Case{BinaryTwo<T>{.a = a, .b = b, .c = c, .d = d}}
      .expect_exact("c", rounded_all<T>(sum))
      .expect_exact("d", rounded_all<T>(product));
}

template <class T>
Case in_place(Gen& g, u64 n) {
  auto acc = g.values<T>(n);
  const auto b = g.values<T>(n);
  std::vector<f64> want(n);
  for (u64 i = 0; i < n; ++i) want[i] = acc.at(i) + b.at(i);
  return Case{BinaryInPlace<T>{.acc = acc, .b = b, .op = BinaryOp::add}}.expect_exact("acc", rounded_all<T>(want));
}

}  // namespace

void register_binary_arithmetic(Registry& r) {
  for (const auto& row : rows) {
    auto k = r.kernel<Binary>(row.name, "binary", dtypes<f32, f16, bf16>, [row](auto& b) { b.op = row.op; });
    k.doc(row.doc);
    const auto limit = row.exact ? exact_match : one_rounding;
    const auto ragged = [row]<class T>(Gen& g, u64 n) {
      const auto a = g.uniform<T>(row.low_a, row.high_a, n), b = g.uniform<T>(row.low_b, row.high_b, n);
      return compare(row, a, b, g);
    };
    k.test("ragged values", limit, [ragged]<class T>(Gen& g) { return ragged.template operator()<T>(g, 1003); });
    k.test("special pairs", limit, [row]<class T>(Gen& g) { return pairs<T>(row, false, g); });
    k.test("pairs that give NaN", limit, [row]<class T>(Gen& g) { return pairs<T>(row, true, g); });
    k.bench("1M", [ragged]<class T>(Gen& g) { return ragged.template operator()<T>(g, 1 << 20); });
  }
  auto pair = r.kernel<BinaryTwo>("binary_two", "binary", dtypes<f32, f16, bf16>);
  pair.doc("c = a + b and d = a * b in one pass, elementwise.");
  pair.test("ragged values", exact_match, []<class T>(Gen& g) { return two<T>(g, 1003); });
  pair.bench("1M", []<class T>(Gen& g) { return two<T>(g, 1 << 20); });

  auto place =
      r.kernel<BinaryInPlace>("add_in_place", "binary", dtypes<f32, f16, bf16>, [](auto& b) { b.op = BinaryOp::add; });
  place.doc("acc = acc + b in place, elementwise; the other functions of two values are its specialisations.");
  place.test("ragged values", exact_match, []<class T>(Gen& g) { return in_place<T>(g, 1003); });
  place.bench("1M", []<class T>(Gen& g) { return in_place<T>(g, 1 << 20); });
}

}  // namespace iron::kernels
