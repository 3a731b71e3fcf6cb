// Launches for tests of the contract: arguments by name, buffers at made-up addresses that nothing dereferences.
#pragma once

#include <bit>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/contract.h"
#include "ir/text.h"

namespace iron::analysis {

struct Launch {
  LaunchGeometry geometry;
  std::vector<LaunchArg> args;
};

/// Values by parameter name: elements of a buffer, or the bits of a scalar.
inline Launch launch(const ir::Kernel& k, Dim3 groups, Dim3 threads,
                     std::initializer_list<std::pair<std::string_view, u64>> values, u64 items = 0) {
  Launch l;
  l.geometry = {groups, threads, items};
  u64 address = 1ull << 40;
  for (const auto& p : k.params) {
    LaunchArg a;
    for (const auto& [name, value] : values)
      if (name == p.name) {
        if (p.is_buffer()) {
          a.data = reinterpret_cast<void*>(address);
          a.bytes = value * dtype_size(p.elem);
          address += (a.bytes + 4095) / 4096 * 4096 + 4096;
        } else
          a.scalar = value;
      }
    l.args.push_back(a);
  }
  return l;
}

/// The codes of the problems, "" when accepted.
inline std::string codes(const std::vector<Diagnostic>& found) {
  std::string s;
  for (const auto& d : found) s += (s.empty() ? "" : " ") + d.code;
  return s;
}

}  // namespace iron::analysis
