// Memory, comparison and text of subjects.
#include "subject.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>

#include "ir/float_bits.h"
#include "ir/text.h"
#include "random.h"

namespace iron::fuzz {

namespace {
u64 hash(std::string_view text) {
  u64 h = 0xcbf29ce484222325u;
  for (const char c : text) h = (h ^ static_cast<u8>(c)) * 0x100000001b3u;
  return h;
}

u64 element(DType t, Random& random) {
  const u64 how = random.below(16), raw = random.next();
  if (t == DType::boolean) return raw & 1;
  if (how == 0) return random.pick(interesting(t));
  if (!is_float(t)) return how < 6 ? raw % 32 : raw;
  const f64 unit = static_cast<f64>(static_cast<i64>(raw >> 11)) * 0x1p-52 - 1.0;
  return ir::float_bits(t, how < 12 ? unit * 4 : unit * 200);
}

std::vector<u64> make_interesting(DType t) {
  std::vector<u64> out;
  if (t == DType::boolean) return {0, 1};
  if (is_float(t)) {
    constexpr f64 inf = std::numeric_limits<f64>::infinity();
    for (const f64 v : {0.0, -0.0, 1.0, -1.0, 0.5, -2.0, 3.0, 0.1, 1e-3, 1e4, -1e5, 1e-30, 2147483648.0, -0.75, inf,
                        -inf, std::numeric_limits<f64>::quiet_NaN()})
      out.push_back(ir::float_bits(t, v));
    out.push_back(1);  // the smallest denormal
    return out;
  }
  const u32 bits = dtype_bits(t);
  const u64 all = bits == 64 ? ~u64{0} : (u64{1} << bits) - 1;
  for (const u64 v : {u64{0}, u64{1}, u64{2}, u64{3}, u64{7}, u64{16}, u64{31}, u64{100}, all, all - 1, all >> 1,
                      (all >> 1) + 1, u64{0x5555555555555555u}})
    out.push_back(v & all);
  return out;
}

std::vector<u64> numbers(std::string_view text) {
  std::vector<u64> out;
  while (!text.empty()) {
    u64 v = 0;
    const auto [end, problem] = std::from_chars(text.data(), text.data() + text.size(), v);
    if (problem != std::errc{}) throw Error("FUZZ01", fmt::format("'{}' is no list of numbers", text), "write 1,2,3");
    out.push_back(v);
    text.remove_prefix(std::min(text.size(), static_cast<std::size_t>(end - text.data()) + 1));
  }
  return out;
}
}  // namespace

std::span<const u64> interesting(DType t) {
  static const auto all = [] {
    std::vector<std::vector<u64>> v(dtype_count);
    for (int i = 1; i < dtype_count; ++i) v[static_cast<std::size_t>(i)] = make_interesting(static_cast<DType>(i));
    return v;
  }();
  return all[static_cast<std::size_t>(t)];
}

Memory::Memory(const Subject& s) {
  for (std::size_t i = 0; i < s.kernel.params.size(); ++i) {
    const auto& p = s.kernel.params[i];
    lines_.emplace_back();
    if (!p.is_buffer()) {
      args_.push_back({nullptr, 0, s.sizes[i]});
      continue;
    }
    auto& lines = lines_.back();
    lines.resize(s.sizes[i] / sizeof(Line) + 1);
    u8* at = lines[0].bytes;
    Random random(s.data_seed ^ hash(p.name));
    const u32 size = dtype_size(p.elem);
    for (u64 b = 0; b + size <= s.sizes[i]; b += size) {
      const u64 bits = element(p.elem, random);
      std::memcpy(at + b, &bits, size);
    }
    args_.push_back({at, s.sizes[i], 0});
  }
}

std::string difference(const ir::Kernel& k, const Subject& s, const Memory& a, const Memory& b) {
  for (std::size_t i = 0; i < k.params.size(); ++i) {
    const auto& p = k.params[i];
    if (!p.is_buffer() || std::memcmp(a.bytes(i), b.bytes(i), s.sizes[i]) == 0) continue;
    const u32 size = dtype_size(p.elem);
    for (u64 at = 0; at + size <= s.sizes[i]; at += size) {
      u64 x = 0, y = 0;
      std::memcpy(&x, a.bytes(i) + at, size);
      std::memcpy(&y, b.bytes(i) + at, size);
      if (x != y && !(ir::is_nan(p.elem, x) && ir::is_nan(p.elem, y)))
        return fmt::format("{}[{}] is {:#x}, it must be {:#x}", p.name, at / size, y, x);
    }
  }
  return {};
}

std::string to_text(const Subject& s) {
  const auto dims = [](Dim3 d) { return fmt::format("{},{},{}", d.x, d.y, d.z); };
  return fmt::format("// LAUNCH groups={} threads={} items={} data={} sizes={}\n{}", dims(s.geometry.groups),
                     dims(s.geometry.threads), s.geometry.items, s.data_seed, fmt::join(s.sizes, ","),
                     ir::print(s.kernel));
}

Subject from_text(std::string_view text, std::string_view file) {
  Subject s;
  const auto start = text.find("// LAUNCH ");
  if (start == std::string_view::npos)
    throw Error("FUZZ01", fmt::format("{} has no line '// LAUNCH ...'", file), "replay a file that iron_fuzz wrote");
  const std::string_view line = text.substr(start, text.find('\n', start) - start);
  const auto field = [&](std::string_view name) {
    const auto at = line.find(fmt::format(" {}=", name));
    if (at == std::string_view::npos) throw Error("FUZZ01", fmt::format("{}: the launch names no {}", file, name));
    const auto from = at + name.size() + 2;
    return numbers(line.substr(from, line.find(' ', from) - from));
  };
  const auto dims = [&](std::string_view name) {
    const auto v = field(name);
    if (v.size() != 3) throw Error("FUZZ01", fmt::format("{}: {} takes three numbers", file, name));
    return Dim3{static_cast<u32>(v[0]), static_cast<u32>(v[1]), static_cast<u32>(v[2])};
  };
  s.geometry = {dims("groups"), dims("threads"), field("items").at(0)};
  s.data_seed = field("data").at(0);
  s.sizes = field("sizes");
  s.kernel = ir::parse(text, file);
  if (s.sizes.size() != s.kernel.params.size())
    throw Error("FUZZ01", fmt::format("{}: {} sizes for {} parameters", file, s.sizes.size(), s.kernel.params.size()));
  return s;
}

}  // namespace iron::fuzz
