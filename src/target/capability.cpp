// Names and implications of capability atoms.
#include "target/capability.h"

#include <array>
#include <utility>

namespace iron::target {

namespace {
struct Row {
  std::string_view text, meaning;
};
constexpr std::array<Row, atom_count> rows = {{
#define ATOM(name, text, meaning) Row{text, meaning},
#include "target/caps.def"
}};

using enum Atom;
constexpr std::pair<Atom, Atom> implications[] = {
#define IMPLIES(a, b) {a, b},
#include "target/caps.def"
};
}  // namespace

std::string_view name(Atom atom) { return rows[static_cast<std::size_t>(atom)].text; }
std::string_view meaning(Atom atom) { return rows[static_cast<std::size_t>(atom)].meaning; }

bool atom_from_name(std::string_view text, Atom& out) {
  for (std::size_t i = 0; i < rows.size(); ++i)
    if (rows[i].text == text) {
      out = static_cast<Atom>(i);
      return true;
    }
  return false;
}

void AtomSet::add(Atom atom) {
  if (has(atom)) return;
  bits_ |= u64{1} << static_cast<int>(atom);
  for (const auto& [from, to] : implications)
    if (from == atom) add(to);
}

std::vector<Atom> AtomSet::atoms() const {
  std::vector<Atom> out;
  for (int i = 0; i < atom_count; ++i)
    if (has(static_cast<Atom>(i))) out.push_back(static_cast<Atom>(i));
  return out;
}

}  // namespace iron::target
