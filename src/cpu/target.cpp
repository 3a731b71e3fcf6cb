// Three targets, from plain x86-64 upwards, and the choice among them.
#include "cpu/target.h"

#include <fmt/format.h>

#include <cstdlib>

#include "iron/error.h"

namespace iron::cpu {

CpuTarget named_target(std::string_view name) {
  CpuTarget t;
  t.name = name;
  if (name == "sse2") {
    t.cpu = "x86-64", t.features = "+sse2";
    return t;
  }
  t.fma = t.f16c = t.sse41 = true;
  if (name == "avx2") {
    t.cpu = "x86-64-v3", t.features = "+avx2,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt", t.lanes = 8;
    return t;
  }
  if (name == "avx512") {
    t.cpu = "x86-64-v4", t.lanes = 16, t.registers = 32, t.avx512 = true;
    t.features = "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl,+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt";
    return t;
  }
  throw Error("CPU01", fmt::format("there is no CPU target {}", name), "use avx512, avx2 or sse2");
}

bool runs_here(const CpuTarget& t) {
  __builtin_cpu_init();
  if (t.name == "sse2") return true;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
  if (t.name == "avx2") return avx2;
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const CpuTarget& host_target() {
  static const CpuTarget chosen = [] {
    if (const char* name = std::getenv("IRON_CPU_TARGET"); name && *name) {
      CpuTarget t = named_target(name);
      if (!runs_here(t))
        throw Error("CPU01", fmt::format("IRON_CPU_TARGET={}: this machine does not have its instructions", name),
                    "unset IRON_CPU_TARGET");
      return t;
    }
    for (const auto* name : {"avx512", "avx2"})
      if (CpuTarget t = named_target(name); runs_here(t)) return t;
    return named_target("sse2");
  }();
  return chosen;
}

}  // namespace iron::cpu
