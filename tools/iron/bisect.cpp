// `iron bisect KERNEL`: the first pass after which the interpreter's results leave what the pass promises to keep.
#include "app.h"
#include "bisect_search.h"
#include "filters.h"
#include "messages.h"
#include "table.h"

namespace iron::tool {

namespace {

struct BisectOptions {
  std::string kernel, dtype, filter;
  u64 seed = 1;
};

int run(const Globals& globals, const BisectOptions& o) {
  const auto& entry = find_kernel(standard_library(), o.kernel, o.dtype);
  const auto all = search_passes();
  int cases = 0, faults = 0;
  for (const auto& s : cases_of(entry, false)) {
    if (!o.filter.empty() && s.name.find(o.filter) == std::string::npos) continue;
    ++cases;
    const auto found = bisect_case(s, o.seed, all);
    faults += found.has_value();
    if (globals.json)
      fmt::print("{}\n", Json{{"type", "bisect"},
                              {"name", entry.full_name()},
                              {"case", s.name},
                              {"ok", !found},
                              {"pass", found ? Json(found->pass) : Json(nullptr)},
                              {"message", found ? found->how : ""}}
                             .dump());
    else if (found)
      fmt::print("{}  {}, {}: first at {}\n      {}\n", styled(Style::red, "FAIL"), entry.full_name(), s.name,
                 styled(Style::bold, found->pass), found->how);
    else if (!globals.quiet)
      fmt::print("{}  {}, {}: every pass keeps what it promises\n", styled(Style::green, "ok  "), entry.full_name(),
                 s.name);
  }
  if (cases == 0)
    throw Error("TOOL03", fmt::format("{} has no test case '{}'", entry.full_name(), o.filter),
                "'iron test --list' shows how many it has");
  return faults ? failure : success;
}

}  // namespace

void add_bisect(CLI::App& app, const Globals& globals, Action& action) {
  auto* sub = subcommand(app, "bisect", "Find the first pass after which a kernel's results leave the pass's policy",
                         "  iron bisect rms_norm_wide_f16\n"
                         "  iron bisect softmax --dtype bf16 --case ragged");
  auto o = std::make_shared<BisectOptions>();
  sub->add_option("KERNEL", o->kernel, "The kernel, with or without iron_ and dtype")->required()->type_name("");
  sub->add_option("--dtype", o->dtype, "Which of the kernel's element types")->type_name("f32|f16|...");
  sub->add_option("--case", o->filter, "Only test cases whose name holds this")->type_name("TEXT");
  sub->add_option("--seed", o->seed, "Seed of the test data")->type_name("N");
  sub->callback([&globals, &action, o] { action = [&globals, o] { return run(globals, *o); }; });
}

}  // namespace iron::tool
