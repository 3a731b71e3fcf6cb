// Remarks and names of the passes' shared vocabulary.
#include <fmt/format.h>

#include "passes/pass.h"

namespace iron::passes {

std::string_view name(BitPolicy p) { return p == BitPolicy::exact ? "exact" : "fused"; }

std::string_view name(RemarkKind k) {
  switch (k) {
    case RemarkKind::done:
      return "done";
    case RemarkKind::missed:
      return "missed";
    case RemarkKind::info:
      return "info";
  }
  return "info";
}

std::string to_string(const Remark& r) {
  std::string out = r.line ? fmt::format("{}:{}: ", r.file, r.line) : std::string{};
  out += fmt::format("{} [{}]: {}", name(r.kind), r.pass, r.message);
  if (!r.missing.empty()) out += fmt::format("; missing: {}", r.missing);
  return out;
}

void PassContext::note(RemarkKind kind, const ir::Kernel& k, ir::OpId at, std::string message, std::string missing) {
  const auto& place = at == ir::none ? ir::Location{} : k.location(at);
  remarks.push_back({kind, std::string(pass), std::move(message), std::move(missing), place.file, place.line});
}

}  // namespace iron::passes
