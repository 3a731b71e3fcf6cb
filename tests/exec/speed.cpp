// How many lane-ops a second of processor time the interpreter runs with all checks on. Not a test: timing depends on
// the machine.
#include <fmt/format.h>

#include <ctime>

#include "exec/exec.h"
#include "ir/text.h"

namespace {
using namespace iron;

void measure(std::string_view what, const ir::Kernel& k, LaunchGeometry g, std::span<const LaunchArg> args) {
  const std::clock_t start = std::clock();
  const auto r = exec::run(k, g, args);
  const double s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  fmt::print("{:<12} {:8.1f} M lane-ops/s   ({} lane-ops, {} accesses a simdgroup, {:.3f} s){}\n", what,
             static_cast<double>(r.statistics.lane_ops) / s / 1e6, r.statistics.lane_ops, r.statistics.accesses, s,
             r.clean() ? "" : "\n" + r.render());
}
ir::Kernel kernel(std::string_view params, std::string_view body) {
  return ir::parse("kernel @k(" + std::string(params) + ") threadgroup exact {\n" + std::string(body) + "}\n");
}
}  // namespace

int main() {
  std::vector<f32> x(1 << 20, 0.5f), y(1 << 20);
  std::vector<u16> h(1 << 20, 0x3800), hy(1 << 20);
  measure("axpy f32", kernel("%x: in f32, %y: out f32", R"(
    %t = grid_thread_id : index
    %v = load %x[%t] : f32
    %w = fma %v, 2.0:f32, 1.0:f32 : f32
    %c = gt %w, 0.0:f32 : bool
    %r = select %c, %w, 0.0:f32 : f32
    store %y[%t], %r
  )"),
          exec::geometry(4096, 256), std::vector{exec::buffer(x), exec::buffer(y)});
  measure("arith f32", kernel("%x: in f32, %y: out f32", R"(
    %t = grid_thread_id : index
    %v = load %x[%t] : f32
    %s = for %i = 0 to 64 step 1 carry(%a = 0.0:f32) : f32 {
      %b = fma %a, %v, 1.0:f32 : f32
      %d = mul %b, 0.5:f32 : f32
      %m = max %d, %a : f32
      yield %m
    }
    store %y[%t], %s
  )"),
          exec::geometry(512, 256), std::vector{exec::buffer(x), exec::buffer(y)});
  measure("arith f16", kernel("%x: in f16, %y: out f16", R"(
    %t = grid_thread_id : index
    %v = load %x[%t] : f16
    %s = for %i = 0 to 32 step 1 carry(%a = 0.0:f16) : f16 {
      %b = mul %a, %v : f16
      %d = add %b, 1.0:f16 : f16
      yield %d
    }
    store %y[%t], %s
  )"),
          exec::geometry(256, 256), std::vector{exec::buffer(h), exec::buffer(hy)});
  measure("row sum", kernel("%x: in f32, %y: out f32", R"(
    %t = thread_id : index
    %g = group_id<x> : index
    %n = group_size : index
    %b = mul %g, 4096 : index
    %s = for %i = %t to 4096 step %n carry(%a = 0.0:f32) : f32 {
      %j = add %b, %i : index
      %v = load %x[%j] : f32
      %c = add %a, %v : f32
      yield %c
    }
    %r = group.reduce<sum> %s : f32
    %k = for %i2 = %t to 4096 step %n carry(%a2 = 0.0:f32) : f32 {
      %j2 = add %b, %i2 : index
      %v2 = load %x[%j2] : f32
      %c2 = mul %r, %v2 : f32
      store %y[%j2], %c2
      yield %a2
    }
  )"),
          exec::geometry(256, 256), std::vector{exec::buffer(x), exec::buffer(y)});
  measure("shared", kernel("%x: in f32, %y: out f32", R"(
    %m = shared.new<256> : shared f32
    %t = thread_id : index
    %q = grid_thread_id : index
    %v = load %x[%q] : f32
    %s = for %i = 0 to 16 step 1 carry(%a = %v) : f32 {
      store %m[%t], %a
      barrier
      %o = xor %t, %i : index
      %w = load %m[%o] : f32
      barrier
      %c = add %w, %a : f32
      yield %c
    }
    store %y[%q], %s
  )"),
          exec::geometry(512, 256), std::vector{exec::buffer(x), exec::buffer(y)});
}
