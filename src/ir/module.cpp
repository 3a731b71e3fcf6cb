// Kernels together with those that they call.
#include <set>

#include "ir/text.h"

namespace iron::ir {

namespace {
void print_callees(const Kernel& k, std::set<std::string>& printed, std::string& out) {
  for (const auto& [name, callee] : k.callees) {
    if (!printed.insert(name).second) continue;
    print_callees(*callee, printed, out);
    out += print(*callee);
  }
}
}  // namespace

std::string print_module(const Kernel& k) {
  std::set<std::string> printed;
  std::string out;
  print_callees(k, printed, out);
  return out + print(k);
}

Kernel read_module(std::string_view text, std::string_view file) {
  auto all = parse_all(text, file);
  if (all.empty()) throw Error("IR0011", std::string(file) + " holds no kernel");
  for (std::size_t i = 0; i + 1 < all.size(); ++i) {
    const auto callee = std::make_shared<const Kernel>(all[i]);
    for (std::size_t later = i + 1; later < all.size(); ++later) all[later].callees[callee->name] = callee;
  }
  return std::move(all.back());
}

}  // namespace iron::ir
