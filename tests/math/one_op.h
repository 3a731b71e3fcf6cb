// Kernels of one op, and the distance of a result from the truth.
#pragma once

#include <bit>
#include <cmath>
#include <limits>
#include <string>

#include "ir/builder.h"
#include "passes/expand_math.h"

namespace iron::test {

/// y[i] = op(x[i], ...) for one op, not expanded yet.
inline ir::Kernel one_op(ir::Opcode code, DType elem = DType::f32) {
  ir::Kernel k;
  k.name = "one_" + std::string(ir::info(code).text);
  std::vector<ir::OpId> memory, values;
  for (int n = 0; n < ir::info(code).operands; ++n)
    memory.push_back(k.add_param("x" + std::to_string(n), ir::ParamKind::in, elem));
  const ir::OpId out = k.add_param("y", ir::ParamKind::out, elem);
  ir::Builder b(k);
  const ir::OpId at = b.op(ir::Opcode::GridThreadId, {});
  for (const ir::OpId m : memory) values.push_back(b.op(ir::Opcode::Load, {m, at}));
  b.op(ir::Opcode::Store, {out, at, b.op(code, std::span<const ir::OpId>(values))});
  return k;
}

/// |got - truth| in units in the last place of f32 at the truth; infinity for a wrong NaN, infinity or sign of zero.
inline f64 ulp_error(f32 got, f64 truth) {
  constexpr f64 wrong = std::numeric_limits<f64>::infinity();
  if (std::isnan(truth) || std::isnan(got)) return std::isnan(truth) && std::isnan(got) ? 0 : wrong;
  if (truth == 0) return got != 0 ? wrong : std::signbit(got) == std::signbit(truth) ? 0 : wrong;
  if (std::isinf(truth)) return got == static_cast<f32>(truth) ? 0 : wrong;
  if (std::signbit(got) != std::signbit(truth)) return wrong;
  const f64 value =
      std::isinf(got) ? std::copysign(0x1p128, got) : f64{got};  // infinity is the next number after the largest
  const f64 capped = std::abs(truth) > 0x1p128 ? std::copysign(0x1p128, truth) : truth;
  const int exponent = std::max(static_cast<int>((std::bit_cast<u64>(capped) >> 52) & 0x7ff) - 1023, -126);
  return std::abs(value - capped) * std::bit_cast<f64>(static_cast<u64>(1023 + 23 - std::min(exponent, 127)) << 52);
}

}  // namespace iron::test
