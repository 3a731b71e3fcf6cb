// Test data, cases and the registry.
#include "iron/library.h"

#include <fmt/format.h>

#include <algorithm>
#include <numbers>

#include "ir/text.h"

namespace iron {

u64 Gen::next() {  // splitmix64 of a counter
  u64 z = seed_ * 0x9e3779b97f4a7c15ull + ++counter_ * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

f64 Gen::unit() { return static_cast<f64>(next() >> 11) * 0x1p-53; }

f64 Gen::gaussian() {  // Box-Muller
  if (has_spare_) {
    has_spare_ = false;
    return spare_;
  }
  const f64 radius = std::min(6.0, std::sqrt(-2.0 * std::log(1.0 - unit()))), angle = 2.0 * std::numbers::pi * unit();
  spare_ = radius * std::sin(angle);
  has_spare_ = true;
  return radius * std::cos(angle);
}

const BoundArg& Case::output(std::string_view parameter) const {
  for (const auto& a : steps.back().args)
    if (a.name == parameter && !a.scalar) {
      if (a.access == detail::Access::in)
        throw Error("TEST01", fmt::format("{} is an input: it cannot be expected to change", parameter));
      return a;
    }
  throw Error("TEST01", fmt::format("the kernel has no buffer {}", parameter), "name a field of the kernel");
}

Case& Case::expect(std::string_view parameter, std::vector<f64> values) {
  const auto& a = output(parameter);
  const u64 n = a.buffer.bytes / dtype_size(a.dtype);
  if (n != values.size())
    throw Error("TEST02", fmt::format("{} holds {} elements, {} are expected", parameter, n, values.size()),
                "compare the full length");
  expectations.push_back({a.buffer.data, a.name, a.dtype, std::move(values), {}, false});
  return *this;
}

Case& Case::expect_bytes(std::string_view parameter, std::span<const std::byte> bytes) {
  const auto& a = output(parameter);
  if (a.buffer.bytes != bytes.size())
    throw Error("TEST02", fmt::format("{} holds {} bytes, {} are expected", parameter, a.buffer.bytes, bytes.size()),
                "compare the full length");
  expectations.push_back({a.buffer.data, a.name, a.dtype, {}, {bytes.begin(), bytes.end()}, true});
  return *this;
}

std::shared_ptr<ir::Kernel> record_checked(const KernelEntry& entry) {
  auto once = entry.record(false);
  const auto again = entry.record(true);
  if (ir::identity(*once) == ir::identity(*again)) return once;
  // The first line that differs is what the changed state went into.
  std::vector<ir::OpId> ops, others;
  once->walk([&](ir::OpId id) { ops.push_back(id); });
  again->walk([&](ir::OpId id) { others.push_back(id); });
  const auto same = [&](ir::OpId a, ir::OpId b) {
    return once->op(a).code == again->op(b).code && once->op(a).imm == again->op(b).imm &&
           once->type(a) == again->type(b);
  };
  std::size_t at = 0;
  while (at + 1 < ops.size() && at < others.size() && same(ops[at], others[at])) ++at;
  Diagnostic d;
  d.code = "D33", d.kernel = once->name;
  d.message = "a loop or branch changes state of the host: recording its body again gives another kernel";
  if (!ops.empty()) {
    ir::OpId line = ops[at];
    if (ir::is_const(*once, line))  // a constant is shown where it is used
      once->walk([&](ir::OpId id) {
        for (const ir::OpId v : once->operands(id))
          if (v == ops[at] && line == ops[at]) line = id;
      });
    d.file = once->location(line).file, d.line = once->location(line).line;
    d.notes.push_back({"what differs first is " + ir::print_op(*once, line), "", 0});
  }
  d.fix = "keep what changes from trip to trip in a Var; a host variable keeps one value in the whole kernel";
  throw Error(std::move(d));
}

std::size_t Registry::insert(KernelEntry entry, SourceLocation loc) {
  std::string_view file = loc.file;
#ifdef IRON_SOURCE_DIR
  constexpr std::string_view root = IRON_SOURCE_DIR "/";
  if (file.substr(0, root.size()) == root) file.remove_prefix(root.size());
#endif
  while (file.substr(0, 3) == "../") file.remove_prefix(3);  // a compiler cache may make paths relative to the build
  entry.file = file;
  for (const auto& e : entries_)
    if (e.full_name() == entry.full_name())
      throw Error("D21",
                  fmt::format("kernel {} is registered twice: in {} and in {}", entry.full_name(), e.file, entry.file),
                  "give one of them another name");
  entries_.push_back(std::move(entry));
  return entries_.size() - 1;
}

}  // namespace iron
