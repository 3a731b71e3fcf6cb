// Runs a kernel in the interpreter and as machine code, and compares every byte that it may write.
#pragma once

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cpu/jit.h"
#include "cpu/scratch.h"
#include "exec/exec.h"
#include "ir/float_bits.h"
#include "ir/text.h"

namespace iron::cpu::test {

struct Argument {
  std::vector<u8> bytes;  ///< of a buffer
  u64 scalar = 0;
};

template <class T>
Argument buffer(const std::vector<T>& v) {
  Argument a;
  a.bytes.resize(v.size() * sizeof(T));
  std::memcpy(a.bytes.data(), v.data(), a.bytes.size());
  return a;
}
template <class T>
Argument zeros(std::size_t n) {
  return {std::vector<u8>(n * sizeof(T), 0x5a), 0};
}
template <class T>
Argument scalar(T v) {
  Argument a;
  std::memcpy(&a.scalar, &v, sizeof v);
  return a;
}

inline std::vector<CpuTarget> targets() {
  std::vector<CpuTarget> all;
  for (const auto name : known_targets())
    if (runs_here(named_target(name))) all.push_back(named_target(name));
  return all;
}

inline bool same_element(DType elem, const u8* a, const u8* b) {
  if (std::memcmp(a, b, dtype_size(elem)) == 0) return true;
  const auto is_nan = [&](const u8* p) {
    u64 bits = 0;
    std::memcpy(&bits, p, dtype_size(elem));
    return ir::is_nan(elem, bits);
  };
  return is_nan(a) && is_nan(b);  // NaNs are one class
}

inline void run_compiled(const Compiled& code, const ir::Kernel& k, const LaunchGeometry& g,
                         std::span<const LaunchArg> args) {
  Scratch scratch;
  scratch.reserve(code.info.scratch_bytes);
  const auto words = argument_words(k, g, args);
  code.fn(words.data(), 0, static_cast<u32>(g.groups.count()), scratch.data());
}

inline std::vector<LaunchArg> launch_args(const ir::Kernel& k, std::vector<std::vector<u8>>& copies,
                                          const std::vector<Argument>& arguments) {
  std::vector<LaunchArg> args;
  copies.clear();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    copies.push_back(arguments[i].bytes);
    LaunchArg a;
    if (k.params[i].is_buffer())
      a.data = copies.back().data(), a.bytes = copies.back().size();
    else
      a.scalar = arguments[i].scalar;
    args.push_back(a);
  }
  return args;
}

/// Compares on every target that runs here; failures name the element and the target.
inline void compare(const ir::Kernel& k, const LaunchGeometry& g, const std::vector<Argument>& arguments,
                    bool check_findings = true) {
  std::vector<std::vector<u8>> expected, got;
  auto args = launch_args(k, expected, arguments);
  const auto result = exec::run(k, g, args);
  if (check_findings)
    for (const auto& f : result.findings)
      if (f.severity == Severity::error) FAIL() << f.render() << "\n" << ir::print(k);
  // Elementwise kernels also in the version whose stores go past the caches.
  for (const auto& target : targets())
    for (const bool stream : {false, true}) {
      if (stream && k.mode != ir::Mode::Elementwise) continue;
      SCOPED_TRACE(target.name + (stream ? ", streaming" : ""));
      std::shared_ptr<Compiled> code;
      try {
        code = compile(k, g.threads, target, {.use_disk = false, .stream = stream});
      } catch (const Error& e) {
        FAIL() << e.what() << "\n" << ir::print(k);
      }
      auto native = launch_args(k, got, arguments);
      run_compiled(*code, k, g, native);
      for (std::size_t i = 0; i < k.params.size(); ++i) {
        const auto elem = k.params[i].elem;
        const std::size_t size = dtype_size(elem);
        if (!k.params[i].is_buffer()) continue;
        for (std::size_t at = 0; at + size <= got[i].size(); at += size)
          if (!same_element(elem, expected[i].data() + at, got[i].data() + at)) {
            u64 want = 0, have = 0;
            std::memcpy(&want, expected[i].data() + at, size);
            std::memcpy(&have, got[i].data() + at, size);
            FAIL() << fmt::format("{}[{}] is {:#x}, the interpreter has {:#x}\n", k.params[i].name, at / size, have,
                                  want)
                   << ir::print(k);
          }
      }
    }
}
inline void compare(std::string_view text, const LaunchGeometry& g, const std::vector<Argument>& arguments) {
  compare(ir::parse(text), g, arguments);
}

/// Numbers worth trying, as bits of the type, then random ones.
inline std::vector<u64> interesting(DType t, std::size_t n, u64 seed) {
  std::vector<u64> v;
  switch (t) {
    case DType::f32:
      v = {0,          0x80000000, 0x3f800000, 0xbf800000, 0x3f000000, 0xbf000000, 0x7f800000, 0xff800000, 0x7fc00000,
           1,          0x80000001, 0x007fffff, 0x00800000, 0x7f7fffff, 0xff7fffff, 0x4b000000, 0x4affffff, 0xcb000001,
           0x4f000000, 0x4effffff, 0xcf000000, 0x4f800000, 0x3fc00000, 0x40200000, 0x33800000, 0x477ff000, 0x477fefff,
           0x38800000, 0x387fc000, 0x33000000, 0x33000001, 0x5f000000, 0x5f800000, 0xdf000000};
      break;
    case DType::f64:
      v = {0,
           0x8000000000000000,
           0x3ff0000000000000,
           0xbff0000000000000,
           0x3fe0000000000000,
           0x7ff0000000000000,
           0xfff0000000000000,
           0x7ff8000000000000,
           1,
           0x000fffffffffffff,
           0x0010000000000000,
           0x7fefffffffffffff,
           0x4330000000000000,
           0x432fffffffffffff,
           0x41dfffffffc00000,
           0x41e0000000000000,
           0x43e0000000000000,
           0x43f0000000000000,
           0xc3e0000000000000,
           0x40effdffffffffff,
           0x40effe0000000000,
           0x3e60000000000001,
           0x36a0000000000001};
      break;
    case DType::f16:
      v = {0,      0x8000, 0x3c00, 0xbc00, 0x3800, 0x7c00, 0xfc00, 0x7e00, 1,
           0x8001, 0x3ff,  0x400,  0x7bff, 0xfbff, 0x6400, 0x6401, 0x3e00, 0x4100};
      break;
    case DType::bf16:
      v = {0,      0x8000, 0x3f80, 0xbf80, 0x3f00, 0x7f80, 0xff80, 0x7fc0, 1,
           0x8001, 0x7f,   0x80,   0x7f7f, 0xff7f, 0x4b00, 0x4f00, 0xcf00, 0x3fc0};
      break;
    default: {
      const u32 b = dtype_bits(t);
      const u64 top = u64{1} << (b - 1), all = b == 64 ? ~u64{0} : (u64{1} << b) - 1;
      for (const u64 x : {u64{0}, u64{1}, u64{2}, u64{3}, u64{5}, u64{7}, all, all - 1, top, top - 1, top + 1, u64{b},
                          u64{b} - 1, u64{b} + 1, all / 3})
        v.push_back(x & all);
    }
  }
  u64 s = seed * 0x9e3779b97f4a7c15ull + 1;
  const u32 bits = t == DType::boolean ? 1 : dtype_bits(t);
  while (v.size() < n) {
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;
    v.push_back(bits == 64 ? s : s & ((u64{1} << bits) - 1));
  }
  if (t == DType::boolean)
    for (auto& x : v) x &= 1;
  v.resize(n);
  return v;
}
inline Argument packed(DType t, const std::vector<u64>& bits) {
  Argument a;
  const u32 size = dtype_size(t);
  a.bytes.resize(bits.size() * size);
  for (std::size_t i = 0; i < bits.size(); ++i) std::memcpy(a.bytes.data() + i * size, &bits[i], size);
  return a;
}

}  // namespace iron::cpu::test
