// How far a kernel's result is fixed by its inputs: inferred from the ops, shown in the manifest, demanded by callers.
#pragma once

#include <string>
#include <vector>

#include "ir/kernel.h"

namespace iron::analysis {

enum class DeterminismClass : u8 {
  bitwise,    ///< the same bits for the same inputs, on every backend and whatever the schedule
  ordered,    ///< a fixed order of operations that the launch or the device's tiles choose: the same bits for the same
              ///< geometry
  unordered,  ///< depends on which thread comes first
};

struct Determinism {
  DeterminismClass cls = DeterminismClass::bitwise;
  struct Reason {
    std::string text, file;
    int line = 0;
  };
  std::vector<Reason> reasons;  ///< why it is not bitwise, one per op at fault
};

Determinism infer_determinism(const ir::Kernel& k);

/// "bitwise", "ordered(width)", "ordered(device)", "unordered".
std::string to_string(const Determinism& d);

}  // namespace iron::analysis
