// Lines of print(...) and check(...).
#include "runtime/cpu/report.h"

#include <fmt/format.h>

namespace iron::runtime {

namespace {
std::string value_text(DType elem, u64 bits) {
  switch (elem) {
    case DType::boolean:
      return bits & 1 ? "true" : "false";
    case DType::i8:
      return fmt::format("{}", static_cast<i8>(bits));
    case DType::i16:
      return fmt::format("{}", static_cast<i16>(bits));
    case DType::i32:
      return fmt::format("{}", static_cast<i32>(bits));
    case DType::i64:
    case DType::index:
      return fmt::format("{}", static_cast<i64>(bits));
    case DType::f16:
      return fmt::format("{}", f16_bits_to_f32(static_cast<u16>(bits)));
    case DType::bf16:
      return fmt::format("{}", std::bit_cast<f32>(static_cast<u32>(bits) << 16));
    case DType::f32:
      return fmt::format("{}", std::bit_cast<f32>(static_cast<u32>(bits)));
    case DType::f64:
      return fmt::format("{}", std::bit_cast<f64>(bits));
    default:
      return fmt::format("{}", bits);
  }
}
}  // namespace

std::string report_line(const ir::Kernel& k, ir::OpId op, u64 thread, u64 threads_per_group, const u64* values) {
  const std::string& text = k.texts[k.op(op).imm];
  if (k.op(op).code == ir::Opcode::Check) {
    const auto& at = k.location(op);
    return fmt::format("{}:{}: a check fails in thread {} of threadgroup {}: {}", at.file, at.line,
                       thread % threads_per_group, thread / threads_per_group, text);
  }
  std::string out;
  std::size_t at = 0, word = 0;
  for (const ir::OpId operand : k.operands(op)) {
    const ir::Type t = k.type(operand);
    std::string v;
    for (u32 e = 0; e < t.lanes; ++e) v += (e ? ", " : "") + value_text(t.elem, values[word++]);
    if (t.lanes > 1) v = "(" + v + ")";
    const auto place = text.find("{}", at);
    if (place == std::string::npos) {
      out += text.substr(at) + " " + v;
      at = text.size();
    } else {
      out += text.substr(at, place - at) + v;
      at = place + 2;
    }
  }
  return out + text.substr(at);
}

}  // namespace iron::runtime
