#include "bundle.h"

#include <zstd.h>

#include <algorithm>
#include <cctype>
#include <map>

#include "app.h"
#include "bench/session.h"
#include "ir/text.h"
#include "messages.h"

namespace iron::tool {

namespace {

constexpr u64 carried_limit = u64{4} << 20;
constexpr int format_version = 1;
constexpr char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

[[noreturn]] void bad(std::string message) {
  throw Error("REPLAY01", std::move(message), "give a file that a failing 'iron test' wrote");
}

std::string base64(std::span<const std::byte> bytes) {
  std::string out;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    const std::size_t n = std::min<std::size_t>(3, bytes.size() - i);
    u32 bits = 0;
    for (std::size_t k = 0; k < 3; ++k) bits = bits << 8 | (k < n ? static_cast<u32>(bytes[i + k]) : 0);
    for (std::size_t k = 0; k < 4; ++k) out += k <= n ? digits[bits >> (18 - 6 * k) & 63] : '=';
  }
  return out;
}

std::vector<std::byte> from_base64(const std::string& text) {
  if (text.size() % 4) bad("the bundle's data is cut off");
  std::vector<std::byte> out;
  for (std::size_t i = 0; i < text.size(); i += 4) {
    u32 bits = 0;
    int n = 3;
    for (std::size_t k = 0; k < 4; ++k) {
      const char c = text[i + k];
      const auto at = std::string_view(digits).find(c);
      if (c == '=' && i + 4 == text.size() && k >= 2)
        --n;
      else if (at == std::string_view::npos)
        bad("the bundle's data is not base64");
      bits = bits << 6 | static_cast<u32>(c == '=' ? 0 : at);
    }
    for (int k = 0; k < n; ++k) out.push_back(static_cast<std::byte>(bits >> (16 - 8 * k)));
  }
  return out;
}

std::string packed(std::span<const std::byte> bytes) {
  std::vector<std::byte> out(ZSTD_compressBound(bytes.size()));
  const auto n = ZSTD_compress(out.data(), out.size(), bytes.data(), bytes.size(), 9);
  if (ZSTD_isError(n)) throw Error("REPLAY02", ZSTD_getErrorName(n));
  return base64({out.data(), n});
}

std::vector<std::byte> unpacked(const std::string& text, u64 bytes) {
  const auto in = from_base64(text);
  std::vector<std::byte> out(bytes);
  const auto n = ZSTD_decompress(out.data(), out.size(), in.data(), in.size());
  if (ZSTD_isError(n) || n != bytes) bad("the bundle's data is damaged");
  return out;
}

Json dims(u32 x, u32 y, u32 z) { return {x, y, z}; }

std::string safe_name(std::string text) {
  for (auto& c : text)
    if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
  return text;
}

// Buffers in the order in which the steps name them; one that several steps share is one.
using BufferIds = std::map<std::pair<const void*, u64>, std::size_t>;
BufferIds number_buffers(const Case& c) {
  BufferIds ids;
  for (const auto& s : c.steps)
    for (const auto& a : s.args)
      if (!a.scalar) ids.emplace(std::pair(a.buffer.data, a.buffer.bytes), ids.size());
  return ids;
}

Json write_step(const Step& s, const BufferIds& ids) {
  Json args = Json::array();
  for (const auto& a : s.args) {
    Json j{{"name", a.name}, {"dtype", dtype_name(a.dtype)}};
    if (a.scalar)
      j["bits"] = a.bits;
    else
      j["buffer"] = ids.at({a.buffer.data, a.buffer.bytes}), j["access"] = static_cast<int>(a.access);
    args.push_back(std::move(j));
  }
  const auto& g = s.grid.groups;
  const auto& t = s.grid.threads;
  return {{"ir", ir::print_module(*s.record())},
          {"groups", dims(g.x, g.y, g.z)},
          {"threads", dims(t.x, t.y, t.z)},
          {"items", s.grid.items},
          {"args", std::move(args)}};
}

Step read_step(const Json& j, const std::string& path, std::size_t number) {
  Step s;
  const std::string text = j.at("ir");
  s.key = fmt::format("{}#{}", path, number);
  s.record = [kernel = ir::read_module(text, path)] { return std::make_shared<ir::Kernel>(kernel); };
  const auto &g = j.at("groups"), &t = j.at("threads");
  s.grid = Grid(Threadgroups{g.at(0), g.at(1), g.at(2)}, Threads{t.at(0), t.at(1), t.at(2)});
  s.grid.items = j.at("items");
  return s;
}

CaseSource find_source(const std::string& kernel, const std::string& name, bool bench) {
  for (const auto& e : standard_library().entries())
    if (e.full_name() == kernel)
      for (auto& s : cases_of(e, true))
        if (s.name == name && s.bench == bench) return s;
  bad(fmt::format("the bundle's buffers are made by case '{}' of {}, which this build does not have", name, kernel));
}

LoadedBundle read(const Json& j, const std::string& path) {
  if (j.at("iron_bundle") != format_version) bad(fmt::format("{} has another version of the bundle format", path));
  LoadedBundle b;
  b.kernel = j.at("kernel"), b.case_name = j.at("case"), b.backend = j.at("backend"), b.message = j.at("message");
  const auto& t = j.at("tolerance");
  b.tolerance = {t.at(0), t.at(1), t.at(2), t.at(3)};
  if (j.at("carried") == false) {
    b.gen = std::make_unique<Gen>(j.at("seed").get<u64>());
    b.c = find_source(b.kernel, b.case_name, j.at("bench")).make(*b.gen);
    if (b.c.steps.size() != j.at("steps").size())
      bad("this build's case has another number of launches than the bundle's");
    for (std::size_t i = 0; i < b.c.steps.size(); ++i) {
      auto s = read_step(j["steps"][i], path, i);
      s.args = b.c.steps[i].args;
      b.c.steps[i] = std::move(s);
    }
    return b;
  }
  std::vector<BufferRef> buffers;
  for (const auto& one : j.at("buffers")) {
    const u64 bytes = one.at("bytes");
    b.memory.push_back(std::make_shared<std::vector<std::byte>>(unpacked(one.at("data"), bytes)));
    buffers.push_back({b.memory.back()->data(), bytes, false});
  }
  for (const auto& one : j.at("steps")) {
    auto s = read_step(one, path, b.c.steps.size());
    for (const auto& a : one.at("args")) {
      BoundArg arg;
      arg.name = a.at("name"), arg.dtype = dtype_from_name(a.at("dtype").get<std::string>());
      arg.scalar = a.contains("bits");
      if (arg.scalar)
        arg.bits = a.at("bits");
      else
        arg.buffer = buffers.at(a.at("buffer")), arg.access = static_cast<detail::Access>(a.at("access").get<int>());
      s.args.push_back(std::move(arg));
    }
    b.c.steps.push_back(std::move(s));
  }
  for (const auto& one : j.at("expectations")) {
    Expectation e;
    e.data = buffers.at(one.at("buffer")).data;
    e.name = one.at("name"), e.dtype = dtype_from_name(one.at("dtype").get<std::string>()), e.exact = one.at("exact");
    auto bytes = unpacked(one.at("data"), one.at("bytes"));
    if (e.exact)
      e.bytes = std::move(bytes);
    else {
      e.values.resize(bytes.size() / sizeof(f64));
      std::memcpy(e.values.data(), bytes.data(), e.values.size() * sizeof(f64));
    }
    b.c.expectations.push_back(std::move(e));
  }
  return b;
}

}  // namespace

std::vector<CaseSource> cases_of(const KernelEntry& e, bool benches) {
  std::vector<CaseSource> out;
  Tolerance loosest = exact_match;
  for (const auto& t : e.tests) {
    out.push_back({&e, t.name, false, t.tolerance, t.make});
    loosest.f32_error = std::max(loosest.f32_error, t.tolerance.f32_error);
    loosest.f16_error = std::max(loosest.f16_error, t.tolerance.f16_error);
    loosest.bf16_error = std::max(loosest.bf16_error, t.tolerance.bf16_error);
    loosest.cosine = std::min(loosest.cosine, t.tolerance.cosine);
  }
  if (benches)
    for (const auto& b : e.benches) out.push_back({&e, b.shape, true, loosest, b.make});
  return out;
}

std::string write_bundle(const CaseSource& source, u64 seed, const std::string& backend, const std::string& message,
                         const std::string& folder) {
  Gen gen(seed);
  const Case c = source.make(gen);
  const auto ids = number_buffers(c);
  u64 total = 0;
  for (const auto& [ref, id] : ids) total += ref.second;
  const bool carried = total <= carried_limit;
  const auto& t = source.tolerance;
  Json j{{"iron_bundle", format_version},
         {"version", IRON_VERSION},
         {"kernel", source.entry->full_name()},
         {"file", source.entry->file},
         {"case", source.name},
         {"bench", source.bench},
         {"seed", seed},
         {"backend", backend},
         {"message", message},
         {"carried", carried}};
  j["tolerance"] = {t.f32_error, t.f16_error, t.bf16_error, t.cosine};
  j["environment"] = bench::environment_overrides();
  if (const auto tree = bench::tree_state()) j["commit"] = tree->commit + (tree->dirty ? " and changes" : "");
  j["steps"] = Json::array();
  for (const auto& s : c.steps) j["steps"].push_back(write_step(s, ids));
  if (carried) {
    std::vector<std::span<const std::byte>> buffers(ids.size());
    for (const auto& [ref, id] : ids) buffers[id] = {static_cast<const std::byte*>(ref.first), ref.second};
    j["buffers"] = Json::array();
    for (const auto& b : buffers) j["buffers"].push_back({{"bytes", b.size()}, {"data", packed(b)}});
    j["expectations"] = Json::array();
    for (const auto& e : c.expectations) {
      const auto bytes = e.exact ? std::as_bytes(std::span(e.bytes)) : std::as_bytes(std::span(e.values));
      std::size_t id = 0;
      for (const auto& [ref, number] : ids)
        if (ref.first == e.data) id = number;
      j["expectations"].push_back({{"buffer", id},
                                   {"name", e.name},
                                   {"dtype", dtype_name(e.dtype)},
                                   {"exact", e.exact},
                                   {"bytes", bytes.size()},
                                   {"data", packed(bytes)}});
    }
  }
  const auto path = fmt::format("{}/{}-{}-{}.json", folder, source.entry->full_name(), safe_name(source.name), backend);
  write_file(path, j.dump(1) + "\n");
  return path;
}

LoadedBundle load_bundle(const std::string& path) {
  const auto j = Json::parse(read_file(path), nullptr, false);
  if (j.is_discarded() || !j.is_object() || !j.contains("iron_bundle")) bad(fmt::format("{} is not a bundle", path));
  try {
    return read(j, path);
  } catch (const Json::exception& e) {
    bad(fmt::format("{} lacks something: {}", path, e.what()));
  } catch (const std::out_of_range&) {
    bad(fmt::format("{} names a buffer that it does not hold", path));
  }
}

}  // namespace iron::tool
