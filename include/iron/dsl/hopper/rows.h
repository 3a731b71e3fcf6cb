// Values of a fragment's rows, made one by one.
#pragma once

#include "iron/dsl/hopper/acc.h"

namespace iron {

/// The rows of a fragment of 64 that a thread holds: lane l of simdgroup w of its warpgroup has rows 16w + l/4 and the
/// eighth after it. Make it once, outside loops.
class OwnRows {
 public:
  explicit OwnRows(detail::Loc loc = detail::Loc::here())
      : first_(simdgroup_id(loc) % 4u * 16u + lane_id(loc) / 4u), is_first_(numbers(loc) == first_) {}

  /// A value for each row: f(row), row from 0 to 63. The four lanes of a row ask for the same one.
  template <class F>
  auto make(F f) const {
    const auto low = f(first_), high = f(first_ + 8u);
    return pick(low, high);
  }

 private:
  static Rows<Index> numbers(detail::Loc loc) {
    const auto shape = ir::Type::frag(DType::index, 64, 8);
    const Frag<Index> row(detail::emit(detail::Opcode::FragRow, loc, {}, 0, shape), 64, 8, loc);
    const Use<Index> zero(0u, loc);
    const Rows<Index> from(
        detail::emit(detail::Opcode::FragSplat, loc, {zero.arg}, 0, ir::Type::row_values(DType::index, 64)), 64, loc);
    return fold_max(row, from, loc);
  }
  template <class T>
  Rows<T> pick(const Val<T>& low, const Val<T>& high) const {
    const auto spread = [&](const Val<T>& v) {
      const Use<T> use(v, is_first_.loc());
      return Rows<T>(
          detail::emit(detail::Opcode::FragSplat, use.loc, {use.arg}, 0, ir::Type::row_values(dtype_of<T>, 64)), 64,
          use.loc);
    };
    const auto first = spread(low), second = spread(high);
    return where(is_first_, first, second);
  }
  Val<Index> first_;
  Rows<bool> is_first_;
};

}  // namespace iron
