// Machine code through the JIT, on one thread and without its disk cache.
#include "cpu/jit.h"
#include "cpu/scratch.h"
#include "native.h"

namespace iron::fuzz {

std::vector<std::string> native_targets() {
  static const auto all = [] {
    std::vector<std::string> out;
    for (const auto name : cpu::known_targets())  // from the widest down
      if (cpu::runs_here(cpu::named_target(name))) out.emplace(out.begin(), name);
    return out;
  }();
  return all;
}

void run_native(const ir::Kernel& k, const Subject& s, Memory& memory, std::string_view target) {
  const auto code =
      cpu::compile(k, s.geometry.threads, cpu::named_target(target), {.use_disk = false, .cache_folder = {}});
  cpu::Scratch scratch;
  scratch.reserve(code->info.scratch_bytes);
  const auto words = cpu::argument_words(k, s.geometry, memory.args());
  code->fn(words.data(), 0, static_cast<u32>(s.geometry.groups.count()), scratch.data());
}

}  // namespace iron::fuzz
