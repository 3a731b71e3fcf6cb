// The table of device profiles.
#include "target/profile.h"

#include <fmt/format.h>

#include <vector>

#include "iron/error.h"

namespace iron::target {

namespace {
using enum Atom;

AtomSet with(AtomSet base, std::initializer_list<Atom> more) {
  for (const Atom a : more) base.add(a);
  return base;
}

const std::vector<Profile>& table() {
  static const std::vector<Profile> all = [] {
    constexpr u64 kib = 1024;
    const AtomSet sm_80 = {f64,       int64,     int8_memory, int16_memory,     exact_fma, exact_div,
                           denormals, atomic_16, atomic_64,   forward_progress, mma_bf16,  cp_async};
    const AtomSet sm_89 = with(sm_80, {mma_fp8});
    const AtomSet sm_90 = with(sm_89, {cluster, mbarrier, tma, dependent_launch});
    return std::vector<Profile>{
        {"sm_80", sm_80, 1024, 163 * kib, 48 * kib},
        {"sm_89", sm_89, 1024, 99 * kib, 48 * kib},
        {"sm_90a", with(sm_90, {wgmma, roles}), 1024, 227 * kib, 48 * kib},
        {"sm_100a", with(sm_90, {tcgen05}), 1024, 227 * kib, 48 * kib},
        {"sm_120a", with(sm_90, {mma_fp4}), 1024, 99 * kib, 48 * kib},
        {"sm_121a", with(sm_90, {mma_fp4}), 1024, 99 * kib, 48 * kib},
        {"generic", {}, 256, 16 * kib, 16 * kib},
    };
  }();
  return all;
}
}  // namespace

std::span<const Profile> profiles() { return table(); }

const Profile& profile(std::string_view name) {
  std::string names;
  for (const auto& p : table()) {
    if (p.name == name) return p;
    names += (names.empty() ? "" : ", ") + p.name;
  }
  throw Error("TARGET01", fmt::format("'{}' is no device profile", name), "use one of " + names);
}

const Profile& cuda_profile(int major, int minor) {
  const int cc = major * 10 + minor;
  if (cc >= 121) return profile("sm_121a");
  if (cc >= 120) return profile("sm_120a");
  if (cc >= 100) return profile("sm_100a");
  if (cc >= 90) return profile("sm_90a");
  if (cc >= 89) return profile("sm_89");
  if (cc >= 80) return profile("sm_80");
  throw Error("TARGET01", fmt::format("compute capability {}.{} is too old", major, minor),
              "a device of 8.0 or newer is needed");
}

}  // namespace iron::target
