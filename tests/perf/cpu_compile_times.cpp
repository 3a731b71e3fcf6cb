// What compiling for the CPU costs, kernel x dtype by kernel x dtype: Iron's lowering, LLVM's passes, LLVM's code
// generation, in processor time, and how many LLVM instructions there were. Nothing is read from the disk cache.
//
//     cpu_compile_times [--only TEXT] [--target NAME] [--rounds N] [--top N] [--table FILE]
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "cpu/jit.h"
#include "cpu/target.h"
#include "ir/text.h"
#include "iron/library.h"
#include "runtime/compile.h"
#include "runtime/cpu/cpu_backend.h"
#include "runtime/run_case.h"

namespace iron {
namespace {

struct Row {
  std::string name;
  f64 lower = 0, optimise = 0, codegen = 0;
  u64 lowered = 0, optimised = 0, bytes = 0;
  f64 sum() const { return lower + optimise + codegen; }
};

/// The least of several rounds: compiling is the same work every time, so whatever is more is the machine's.
Row measure(const KernelEntry& e, const cpu::CpuTarget& target, u32 rounds) {
  Gen g(1);
  const Case c = e.tests[0].make(g);
  const auto& threads = c.steps[0].grid.threads;
  const ir::Kernel k = ir::canonical(*runtime::compile_for("cpu", c.steps[0].record())->optimised);
  Row best;
  for (u32 i = 0; i < rounds; ++i) {
    const auto code = cpu::compile(k, {threads.x, threads.y, threads.z}, target, {.use_disk = false});
    const Row r{e.full_name(),      code->lower_ms,  code->optimise_ms, code->codegen_ms, code->lowered_instructions,
                code->instructions, code->code_bytes};
    if (i == 0 || r.sum() < best.sum()) best = r;
  }
  return best;
}

int run(int argc, char** argv) {
  std::string only, table, target_name = cpu::host_target().name;
  u32 rounds = 1, top = 30;
  for (int i = 1; i < argc; ++i) {
    const bool more = i + 1 < argc;
    if (more && !std::strcmp(argv[i], "--only"))
      only = argv[++i];
    else if (more && !std::strcmp(argv[i], "--table"))
      table = argv[++i];
    else if (more && !std::strcmp(argv[i], "--target"))
      target_name = argv[++i];
    else if (more && !std::strcmp(argv[i], "--rounds"))
      rounds = static_cast<u32>(std::max(1, std::atoi(argv[++i])));
    else if (more && !std::strcmp(argv[i], "--top"))
      top = static_cast<u32>(std::max(0, std::atoi(argv[++i])));
    else {
      fmt::print(stderr, "usage: {} [--only TEXT] [--target NAME] [--rounds N] [--top N] [--table FILE]\n", argv[0]);
      return 2;
    }
  }
  const cpu::CpuTarget target = cpu::named_target(target_name);
  runtime::CpuBackend device(1);
  std::vector<Row> rows;
  for (const auto& e : standard_library().entries()) {
    if (!runtime::runs(device, e) || e.tests.empty()) continue;
    if (e.full_name().find(only) == std::string::npos) continue;
    if (rows.empty()) measure(e, target, 1);  // LLVM's own start
    rows.push_back(measure(e, target, rounds));
  }
  if (rows.empty()) {
    fmt::print(stderr, "no kernel is called {}\n", only);
    return 1;
  }
  std::sort(rows.begin(), rows.end(), [](const Row& a, const Row& b) { return a.sum() > b.sum(); });
  fmt::print("{:<60} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8} {:>8}\n", "kernel", "ms", "lowering", "passes", "codegen",
             "lowered", "after", "bytes");
  Row all;
  const auto line = [](const std::string& name, const Row& r) {
    return fmt::format("{:<60} {:8.1f} {:8.1f} {:8.1f} {:8.1f} {:8} {:8} {:8}\n", name, r.sum(), r.lower, r.optimise,
                       r.codegen, r.lowered, r.optimised, r.bytes);
  };
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const Row& r = rows[i];
    all.lower += r.lower, all.optimise += r.optimise, all.codegen += r.codegen;
    all.lowered += r.lowered, all.optimised += r.optimised, all.bytes += r.bytes;
    text += line(r.name, r);
    if (i < top) fmt::print("{}", line(r.name, r));
  }
  fmt::print("{}", line(fmt::format("all {} on {}", rows.size(), target.name), all));
  const auto above = [&](f64 ms) {
    return std::count_if(rows.begin(), rows.end(), [&](const Row& r) { return r.sum() > ms; });
  };
  fmt::print("median {:.1f} ms; above 40 ms: {}, above 100 ms: {}, above 1 s: {}\n", rows[rows.size() / 2].sum(),
             above(40), above(100), above(1000));
  if (!table.empty()) std::ofstream(table) << text;
  return 0;
}

}  // namespace
}  // namespace iron

int main(int argc, char** argv) {
  try {
    return iron::run(argc, argv);
  } catch (const std::exception& e) {
    fmt::print(stderr, "{}\n", e.what());
    return 1;
  }
}
