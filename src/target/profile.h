// Device profiles: which atoms and limits a class of devices has.
#pragma once

#include <span>

#include "target/capability.h"

namespace iron::target {

struct Profile {
  std::string name;  ///< "sm_90a", "generic"
  AtomSet atoms;
  u32 max_threads_per_group = 1024;
  u64 shared_bytes = 0;         ///< per threadgroup, opt-in included
  u64 static_shared_bytes = 0;  ///< per threadgroup without the opt-in
};

/// Every profile: sm_80, sm_89, sm_90a, sm_100a, sm_120a, sm_121a, and generic, which has only what every device has.
std::span<const Profile> profiles();
/// The profile of that name; throws iron::Error (TARGET01) with the names there are.
const Profile& profile(std::string_view name);
/// The profile for a CUDA compute capability: the newest one that it includes; throws TARGET01 below 8.0.
const Profile& cuda_profile(int major, int minor);

}  // namespace iron::target
