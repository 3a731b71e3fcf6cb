// The op table as data.
#include "ir/op.h"

#include <array>
#include <unordered_map>

namespace iron::ir {

namespace {
constexpr auto make_table() {
  using enum Effect;
  using enum Scope;
#define OP(Name, text, operands, imm, rule, effects, scope, atom, meaning) \
  OpInfo{#Name, text, operands, ImmKind::imm, TypeRule::rule, static_cast<u32>(effects), scope, atom, meaning},
  return std::array<OpInfo, opcode_count>{
#include "ir/ops.def"
  };
}
constexpr auto table = make_table();

template <class E, std::size_t N>
std::string_view lookup(const std::array<std::string_view, N>& names, E value) {
  return names[static_cast<std::size_t>(value)];
}
}  // namespace

const OpInfo& info(Opcode op) { return table[static_cast<std::size_t>(op)]; }

bool opcode_from_text(std::string_view text, Opcode& out) {
  static const auto* map = [] {
    auto* m = new std::unordered_map<std::string_view, Opcode>;
    for (std::size_t i = 0; i < table.size(); ++i) m->emplace(table[i].text, static_cast<Opcode>(i));
    return m;
  }();
  const auto it = map->find(text);
  if (it == map->end()) return false;
  out = it->second;
  return true;
}

std::string_view name(ReduceKind k) {
  return lookup(std::array<std::string_view, 7>{"sum", "prod", "min", "max", "and", "or", "xor"}, k);
}
std::string_view name(AtomicKind k) {
  return lookup(std::array<std::string_view, 8>{"add", "min", "max", "and", "or", "xor", "exchange", "inc_wrap"}, k);
}
std::string_view name(MemoryOrder k) {
  return lookup(std::array<std::string_view, 4>{"relaxed", "acquire", "release", "acq_rel"}, k);
}
std::string_view name(CachePolicy k) { return lookup(std::array<std::string_view, 3>{"normal", "stream", "keep"}, k); }
std::string_view name(CompareKind k) {
  return lookup(std::array<std::string_view, 6>{"eq", "ne", "lt", "le", "gt", "ge"}, k);
}
std::string_view name(MmaFormat k) { return lookup(std::array<std::string_view, 3>{"native", "e4m3", "e5m2"}, k); }
std::string_view name(Scope k) {
  return lookup(std::array<std::string_view, 8>{"lane", "simdgroup", "warpgroup", "role", "threadgroup", "cluster",
                                                "grid", "tile"},
                k);
}

}  // namespace iron::ir
