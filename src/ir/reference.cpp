#include "ir/reference.h"

#include <fmt/format.h>

#include <array>
#include <vector>

#include "ir/op.h"

namespace iron::ir {

namespace {

struct Section {
  Opcode first;
  std::string_view title;
};
// A section runs to the first op of the next one; the order is that of the table.
constexpr std::array sections{
    Section{Opcode::Param, "Structure"},
    Section{Opcode::ThreadId, "Ids"},
    Section{Opcode::SharedNew, "Memory"},
    Section{Opcode::Add, "Arithmetic"},
    Section{Opcode::Sqrt, "Rounding, roots, scaling"},
    Section{Opcode::Exp, "Transcendental functions"},
    Section{Opcode::Cast, "Conversions and vectors"},
    Section{Opcode::SimdReduce, "Simdgroup and threadgroup"},
    Section{Opcode::Bounded, "Facts, checks, text"},
    Section{Opcode::TileNew, "Tiles"},
    Section{Opcode::RoleIndex, "The Hopper tier"},
};

std::string effects(const OpInfo& i) {
  struct Word {
    u32 bit;
    std::string_view text;
  };
  static constexpr Word words[] = {{Terminator, "ends a region"},
                                   {HasRegions, "owns regions"},
                                   {Alloc, "names memory"},
                                   {Reads, "reads"},
                                   {Writes, "writes"},
                                   {ReadsSlot, "reads"},
                                   {WritesSlot, "writes"},
                                   {AtomicOp, "atomic"},
                                   {Convergent, "convergent"},
                                   {Sync, "orders accesses"},
                                   {Waits, "waits"},
                                   {OneThread, "one thread"},
                                   {Fact, "states a fact"},
                                   {Report, "reports"},
                                   {Fast, "device-dependent"}};
  std::string out;
  for (const auto& w : words)
    if (i.has(w.bit)) out += (out.empty() ? "" : ", ") + std::string(w.text);
  return out.empty() ? "pure" : out;
}

}  // namespace

std::string reference_page() {
  std::string out;
  std::size_t next = 0;
  for (int n = 0; n < opcode_count; ++n) {
    const auto code = static_cast<Opcode>(n);
    if (next < sections.size() && sections[next].first == code) {
      out +=
          fmt::format("\n### {}\n\n| op | operands | effects | over | needs | meaning |\n|---|---|---|---|---|---|\n",
                      sections[next].title);
      ++next;
    }
    const auto& i = info(code);
    out +=
        fmt::format("| `{}` | {} | {} | {} | {} | {} |\n", i.text, i.operands < 0 ? "any" : std::to_string(i.operands),
                    effects(i), name(i.scope), i.atom.empty() ? "" : fmt::format("`{}`", i.atom), i.meaning);
  }
  return out;
}

}  // namespace iron::ir
