// Small functions that emitted kernels call; each text carries only those it uses.
#pragma once

#include <span>
#include <string>
#include <string_view>

namespace iron::emit {

/// `$fn` in the text stands for the dialect's function words. `needs` lists other helpers, separated by spaces.
struct Helper {
  std::string_view name, needs, text;
};

/// Helpers in plain C++ over a dialect's primitives.
std::span<const Helper> shared_helpers();

}  // namespace iron::emit
