#include "equality.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>

#include "core/hash.h"
#include "iron/error.h"
#include "maker.h"
#include "messages.h"
#include "runtime/compile.h"
#include "runtime/run_case.h"

namespace iron::tool {

namespace {

template <class T, class IsNan>
void canonical(std::string& bytes, T quiet, IsNan is_nan) {
  for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
    T v;
    std::memcpy(&v, bytes.data() + at, sizeof v);
    if (is_nan(v)) std::memcpy(bytes.data() + at, &quiet, sizeof v);
  }
}

void one_nan(std::string& bytes, DType type) {
  if (type == DType::f32)
    canonical<u32>(bytes, 0x7fc00000u, [](u32 v) { return (v & 0x7fffffffu) > 0x7f800000u; });
  else if (type == DType::f64)
    canonical<u64>(bytes, 0x7ff8000000000000ull,
                   [](u64 v) { return (v & 0x7fffffffffffffffull) > 0x7ff0000000000000ull; });
  else if (type == DType::f16)
    canonical<u16>(bytes, 0x7e00, [](u16 v) { return (v & 0x7fff) > 0x7c00; });
  else if (type == DType::bf16)
    canonical<u16>(bytes, 0x7fc0, [](u16 v) { return (v & 0x7fff) > 0x7f80; });
}

}  // namespace

std::string digest_key(const CaseSource& source) { return source.entry->full_name() + ", " + source.name; }

std::string result_digest(const Case& c) {
  std::string all;
  std::set<const void*> seen;
  for (const auto& step : c.steps)
    for (const auto& a : step.args) {
      if (a.scalar || a.access == detail::Access::in || !a.buffer.bytes || !seen.insert(a.buffer.data).second) continue;
      std::string bytes(static_cast<const char*>(a.buffer.data), a.buffer.bytes);
      one_nan(bytes, a.dtype);
      all += fmt::format("{} {} ", a.name, bytes.size()) + hash128(std::string_view(bytes)).hex() + "\n";
    }
  return hash128(std::string_view(all)).hex();
}

std::optional<std::string> exempt_from_equality(const Case& c, const std::string& backend) {
  for (const auto& step : c.steps) {
    const auto compiled = runtime::compile_for(backend, step.record());
    std::optional<std::string> why;
    compiled->optimised->walk([&](ir::OpId id) {
      const auto text = compiled->optimised->info_of(id).text;
      constexpr std::string_view other_order = "a matrix unit sums in its own order";
      if (text == "acc.mma") why = other_order;
      if (text == "tile.mma" && backend == "cuda") {
        const auto input =
            ir::unpack<ir::TileImm>(compiled->optimised->op(compiled->optimised->operand(id, 0)).imm).input;
        if (input == DType::f16 || input == DType::bf16) why = other_order;
      }
      if (text.starts_with("fast_")) why = fmt::format("{} is approximate", text);
    });
    if (why) return why;
  }
  return std::nullopt;
}

Reference::Reference(const std::string& what, u64 seed) : name_(what), seed_(seed) {
  const auto names = runtime::backend_names();
  if (std::find(names.begin(), names.end(), what) != names.end()) {
    backend_ = &open_backend(what);
    return;
  }
  std::ifstream in(what);
  if (!in)
    throw Error("TOOL06", fmt::format("there is no backend and no readable file '{}' to compare with", what),
                "name a backend, or a file that 'iron test --digests FILE' wrote");
  for (std::string line; std::getline(in, line);)
    if (const auto tab = line.find('\t'); tab != std::string::npos) known_[line.substr(tab + 1)] = line.substr(0, tab);
  if (known_.empty()) throw Error("TOOL06", fmt::format("{} holds no digest", what));
}

std::string Reference::digest(const CaseSource& source) {
  if (!backend_) {
    const auto it = known_.find(digest_key(source));
    return it == known_.end() ? std::string{} : it->second;
  }
  const auto made = make_case(source, seed_);
  if (!made.c) throw Error("TOOL07", made.error);
  runtime::BoundCase bound(*backend_, *made.c);
  bound.launch();
  bound.download();
  return result_digest(*made.c);
}

}  // namespace iron::tool
