// Lines of print(...) and check(...).
#include "runtime/cpu/report.h"

#include <fmt/format.h>

#include "ir/text.h"

namespace iron::runtime {

std::string report_line(const ir::Kernel& k, ir::OpId op, u64 thread, u64 threads_per_group, const u64* values) {
  const std::string& text = k.texts[k.op(op).imm];
  if (k.op(op).code == ir::Opcode::Check) {
    const auto& at = k.location(op);
    return fmt::format("{}:{}: a check fails in thread {} of threadgroup {}: {}", at.file, at.line,
                       thread % threads_per_group, thread / threads_per_group, text);
  }
  std::vector<std::string> shown;
  for (const ir::OpId operand : k.operands(op)) {
    const ir::Type t = k.type(operand);
    shown.push_back(ir::value_text(t, {values, t.lanes}));
    values += t.lanes;
  }
  return ir::fill_places(text, shown);
}

}  // namespace iron::runtime
