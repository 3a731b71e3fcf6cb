// Capability atoms and sets of them, closed under implication.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "iron/types.h"

namespace iron::target {

enum class Atom : u8 {
#define ATOM(name, text, meaning) name,
#include "target/caps.def"
};
inline constexpr int atom_count = 0
#define ATOM(name, text, meaning) +1
#include "target/caps.def"
    ;
static_assert(atom_count <= 64);

std::string_view name(Atom atom);
std::string_view meaning(Atom atom);
/// The atom with that text, or false.
bool atom_from_name(std::string_view text, Atom& out);

/// A set of atoms that holds what its members imply.
class AtomSet {
 public:
  AtomSet() = default;
  AtomSet(std::initializer_list<Atom> atoms) {
    for (const Atom a : atoms) add(a);
  }
  void add(Atom atom);
  bool has(Atom atom) const { return (bits_ >> static_cast<int>(atom)) & 1; }
  std::vector<Atom> atoms() const;  ///< in the order of caps.def
  bool operator==(const AtomSet&) const = default;

 private:
  u64 bits_ = 0;
};

}  // namespace iron::target
