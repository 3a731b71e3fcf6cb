// Short ways to run a text kernel in the interpreter.
#pragma once

#include <gtest/gtest.h>

#include <initializer_list>
#include <numeric>

#include "exec/exec.h"
#include "ir/text.h"

namespace iron::exec {

inline ir::Kernel kernel(std::string_view params, std::string_view body, std::string_view attributes = "") {
  return ir::parse("kernel @k(" + std::string(params) + ") threadgroup exact " + std::string(attributes) +
                   " {\n  file 0 \"k.cpp\"\n" + std::string(body) + "}\n");
}

inline Result launch(const ir::Kernel& k, LaunchGeometry g, std::initializer_list<LaunchArg> args, Options o = {}) {
  return run(k, g, {args.begin(), args.size()}, o);
}

inline std::vector<f32> iota_f32(std::size_t n) {
  std::vector<f32> v(n);
  std::iota(v.begin(), v.end(), 0.0f);
  return v;
}

}  // namespace iron::exec
