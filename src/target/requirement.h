// What a kernel needs of a device, and whether a profile has it.
#pragma once

#include "ir/kernel.h"
#include "target/profile.h"

namespace iron::target {

/// One needed atom and the first op, in program order, that needs it.
struct Need {
  Atom atom;
  ir::OpId first_use;
};

struct Requirement {
  std::vector<Need> needs;  ///< each atom once, in order of first use; implied atoms are not listed
  u64 shared_bytes = 0;     ///< threadgroup memory that the kernel declares
  AtomSet atoms() const;
};

Requirement requirement(const ir::Kernel& k);

/// What the profile lacks (D20, one finding an atom, at its first use) and which limit is passed (D27); empty if it
/// fits.
std::vector<Diagnostic> fit(const ir::Kernel& k, const Profile& profile);

}  // namespace iron::target
