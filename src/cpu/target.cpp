// The targets, from plain x86-64 upwards, and the choice among them.
#include "cpu/target.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "iron/error.h"

namespace iron::cpu {

namespace {
constexpr std::string_view names[] = {"avx512bf16", "avx512vnni", "avx512", "avx2vnni", "avx2", "sse2"};
}  // namespace

std::span<const std::string_view> known_targets() { return names; }

CpuTarget named_target(std::string_view name) {
  CpuTarget t;
  t.name = name;
  if (name == "sse2") {
    t.cpu = "x86-64", t.features = "+sse2";
    return t;
  }
  if (std::find(std::begin(names), std::end(names), name) == std::end(names)) {
    std::string all;
    for (const auto n : names) all += (all.empty() ? "" : ", ") + std::string(n);
    throw Error("CPU01", fmt::format("there is no CPU target {}", name), "use one of " + all);
  }
  t.fma = t.f16c = t.sse41 = true;
  const std::string both = "+fma,+f16c,+bmi,+bmi2,+lzcnt,+popcnt";
  if (name.starts_with("avx2")) {
    t.cpu = "x86-64-v3", t.features = "+avx2," + both, t.lanes = 8;
    t.dot_bytes = name == "avx2vnni";
    if (t.dot_bytes) t.features += ",+avxvnni";
    return t;
  }
  t.cpu = "x86-64-v4", t.lanes = 16, t.registers = 32, t.avx512 = true;
  t.features = "+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl," + both;
  t.dot_bytes = name != "avx512", t.dot_bf16 = name == "avx512bf16";
  if (t.dot_bytes) t.features += ",+avx512vnni";
  if (t.dot_bf16) t.features += ",+avx512bf16";
  return t;
}

bool runs_here(const CpuTarget& t) {
  __builtin_cpu_init();
  if (t.name == "sse2") return true;
  const bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c") &&
                    __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("lzcnt");
  if (!t.avx512) return avx2 && (!t.dot_bytes || __builtin_cpu_supports("avxvnni"));
  return avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl") && (!t.dot_bytes || __builtin_cpu_supports("avx512vnni")) &&
         (!t.dot_bf16 || __builtin_cpu_supports("avx512bf16"));
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
    for (const auto name : names)
      if (CpuTarget t = named_target(name); runs_here(t)) return t;
    return named_target("sse2");
  }();
  return chosen;
}

}  // namespace iron::cpu
