// perf's map files: a line a function, "start size name" in hexadecimal.
#include "cpu/perf_map.h"

#include <fmt/format.h>
#include <llvm/Object/ELFObjectFile.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>

namespace iron::cpu {

using namespace llvm;

void note_for_perf(std::span<const char> object, const std::string& symbol, const void* entry) {
  if (!std::getenv("IRON_PERF_MAP")) return;
  auto file = object::ObjectFile::createObjectFile(MemoryBufferRef(StringRef(object.data(), object.size()), symbol));
  if (!file) return consumeError(file.takeError());
  struct Function {
    std::string name;
    std::uint64_t at, size;
  };
  std::vector<Function> functions;
  std::uint64_t entry_at = 0;
  for (const object::ELFSymbolRef s : (*file)->symbols()) {
    if (s.getELFType() != ELF::STT_FUNC) continue;
    auto name = s.getName();
    auto at = s.getValue();
    if (!name || !at) {
      consumeError(name.takeError());
      consumeError(at.takeError());
      continue;
    }
    if (*name == symbol) entry_at = *at;
    functions.push_back({name->str(), *at, s.getSize()});
  }
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> map(
      std::fopen(fmt::format("/tmp/perf-{}.map", getpid()).c_str(), "a"), &std::fclose);
  if (!map) return;
  for (const Function& f : functions)
    fmt::print(map.get(), "{:x} {:x} {}\n", reinterpret_cast<std::uintptr_t>(entry) + f.at - entry_at, f.size, f.name);
}

}  // namespace iron::cpu
