// Constants and ops of expansions.
#include "passes/math/emit.h"

#include <array>

namespace iron::passes::math {

Val Emit::constant(DType elem, u64 bits) {
  const auto [it, fresh] = constants_.try_emplace({elem, bits}, ir::none);
  if (fresh) it->second = b_.constant(shape_.with_elem(elem), bits);
  return wrap(it->second);
}

Val Emit::op(ir::Opcode code, std::initializer_list<Val> operands) {
  std::array<ir::OpId, 4> ids{};
  std::size_t n = 0;
  for (const Val v : operands) ids[n++] = v.id;
  return wrap(b_.op(code, std::span<const ir::OpId>(ids.data(), n)));
}

Val Emit::convert(ir::Opcode code, DType elem, Val a) { return wrap(b_.op(code, shape_.with_elem(elem), {a.id})); }

}  // namespace iron::passes::math
