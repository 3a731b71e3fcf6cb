// Copies that threads start: cp.async, which takes 16 bytes past the first cache level, and zeros where it is told so.
#include <fmt/format.h>

#include "emit/cuda/rows.h"

namespace iron::emit::cuda {

using ir::Opcode;
using ir::OpId;

namespace {
std::string copy_helper(Emitter& e, u32 bytes, bool guarded) {
  const auto name = fmt::format("copy_async_{}{}", bytes, guarded ? "_or_zeros" : "");
  return e.made(name, [&] {
    // Of the first `n` bytes; the rest is zeros, and nothing is read for it.
    return fmt::format(
        "$fn void {}(void* to, const void* from{}) {{\n"
        "  asm volatile(\"cp.async.{}.shared.global [%0], [%1], {}{};\" : : "
        "\"r\"((u32)__cvta_generic_to_shared(to)), \"l\"(from){} : \"memory\");\n}}",
        name, guarded ? ", bool inside" : "", bytes == 16 ? "cg" : "ca", bytes, guarded ? ", %2" : "",
        guarded ? fmt::format(", \"r\"(inside ? {} : 0)", bytes) : "");
  });
}
}  // namespace

void copy_async(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const OpId value = k.operand(id, 2);
  const auto code = k.op(value).code;
  if (!e.options().async_copies || (code != Opcode::Load && code != Opcode::LoadOr)) return rows::store(e, id);
  const u32 bytes = k.type(value).lanes * dtype_size(k.type(value).elem);
  const bool guarded = code == Opcode::LoadOr;
  std::string text =
      fmt::format("{}(&{}, &{}", copy_helper(e, bytes, guarded), rows::element(e, k.operand(id, 0), e.arg(id, 1)).text,
                  rows::element(e, k.operand(value, 0), e.arg(value, 1)).text);
  if (guarded) text += ", " + e.arg(value, 2).text;
  e.line(id, text + ");");
}

void copy_commit(Emitter& e, OpId id) {
  if (e.options().async_copies) e.line(id, "asm volatile(\"cp.async.commit_group;\" : : : \"memory\");");
}
void copy_wait(Emitter& e, OpId id) {
  if (e.options().async_copies)
    e.line(id, fmt::format("asm volatile(\"cp.async.wait_group {};\" : : : \"memory\");", e.kernel().op(id).imm));
}

}  // namespace iron::emit::cuda
