// Reading plans: every mistake is named with the file, the entry and what can be written instead.
#include "tune_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/contract.h"
#include "bench/timer.h"
#include "filters.h"
#include "iron/error.h"
#include "runtime/compile.h"
#include "runtime/cuda/tensor_map.h"
#include "target/profile.h"

namespace iron::tool {

namespace {

struct Reader {
  std::string file;
  [[noreturn]] void fail(const char* code, const std::string& place, const std::string& what,
                         const std::string& fix) const {
    throw Error(code, fmt::format("{}{}: {}", file, place.empty() ? "" : ", " + place, what), fix);
  }
  void keys(const Json& object, const std::string& place, std::initializer_list<std::string_view> known) const {
    std::string list;
    for (const auto& k : known) list += (list.empty() ? "" : ", ") + std::string(k);
    if (!object.is_object()) fail("TUNE02", place, fmt::format("{} is no object", object.dump()), "keys: " + list);
    for (const auto& [key, value] : object.items())
      if (std::find(known.begin(), known.end(), key) == known.end())
        fail("TUNE02", place, fmt::format("there is no key '{}'", key), "keys: " + list);
  }
  /// A string, or a list of strings.
  std::vector<std::string> words(const Json& object, const char* key, const std::string& place) const {
    std::vector<std::string> out;
    if (!object.contains(key)) return out;
    const auto& value = object[key];
    for (const auto& v : value.is_array() ? value : Json::array({value})) {
      if (!v.is_string())
        fail("TUNE02", place, fmt::format("'{}' holds {}", key, v.dump()), "write a string or a list of strings");
      out.push_back(v.get<std::string>());
    }
    return out;
  }
  u64 number(const Json& object, const char* key, const std::string& place, u64 least, u64 most) const {
    const char* fix = "write a whole number";
    if (!object.contains(key)) fail("TUNE05", place, fmt::format("'{}' is missing", key), "a shape has m, n and k");
    const auto& v = object[key];
    if (!v.is_number_unsigned() || v.get<u64>() < least || v.get<u64>() > most)
      fail("TUNE05", place, fmt::format("'{}' is {}", key, v.dump()),
           fmt::format("{} from {} to {}", fix, least, most));
    return v.get<u64>();
  }
  void architecture(const std::string& arch, const std::string& place) const {
    std::string known;
    for (const auto& p : target::profiles()) {
      if (p.name == arch && arch.starts_with("sm_")) return;
      if (p.name.starts_with("sm_")) known += (known.empty() ? "" : ", ") + p.name;
    }
    fail("TUNE06", place, fmt::format("there is no architecture '{}'", arch), known);
  }
};

std::string bench_names(const KernelEntry& e) {
  std::string names;
  for (const auto& b : e.benches) names += (names.empty() ? "'" : ", '") + b.shape + "'";
  return names.empty() ? "it has none" : names;
}

// Spec fields are checked when the plan is read, so that the message has the place.
void check_spec(const Reader& reader, const KernelEntry& e, const std::string& spec, const std::string& place) {
  try {
    e.instance()->specialise(spec);
  } catch (const Error& error) {
    const auto& d = error.diagnostics().front();
    reader.fail("TUNE04", place, fmt::format("{}: {}", e.full_name(), d.message), d.fix);
  }
}

const KernelEntry& entry_named(const Reader& reader, const Json& object, const std::string& place) {
  const auto names = reader.words(object, "kernel", place);
  if (names.size() != 1)
    reader.fail("TUNE02", place, "'kernel' is missing or more than one", "name one kernel with its element type");
  try {
    return find_kernel(standard_library(), names[0], "");
  } catch (const UsageError& error) {
    reader.fail("TUNE03", place, error.what(), "give a kernel's name with its element type, such as gemm_tma_bf16");
  }
}

void read_entry(const Reader& reader, const Json& object, const std::string& place, std::vector<std::string> archs,
                Plan& plan) {
  reader.keys(object, place, {"kernel", "specs", "shapes", "benches", "arch"});
  PlanItem item;
  item.place = fmt::format("{}, {}", reader.file, place);
  item.entry = &entry_named(reader, object, place);
  item.benches = reader.words(object, "benches", place);
  for (const auto& name : item.benches)
    if (std::none_of(item.entry->benches.begin(), item.entry->benches.end(),
                     [&](const auto& b) { return b.shape == name; }))
      reader.fail("TUNE05", place, fmt::format("{} has no bench '{}'", item.entry->full_name(), name),
                  bench_names(*item.entry));
  if (object.contains("shapes")) {
    if (!kernels::find_gemm_member(item.entry->name))
      reader.fail("TUNE05", place,
                  fmt::format("{} is no matrix product: it has no m, n and k", item.entry->full_name()),
                  "name its registered shapes in 'benches': " + bench_names(*item.entry));
    if (!object["shapes"].is_array())
      reader.fail("TUNE02", place, "'shapes' is no list", R"(write [{"m": 4096, "n": 4096, "k": 4096}])");
    for (std::size_t i = 0; i < object["shapes"].size(); ++i) {
      const auto& s = object["shapes"][i];
      const std::string here = fmt::format("{}.shapes[{}]", place, i);
      reader.keys(s, here, {"m", "n", "k"});
      const auto side = [&](const char* key) { return static_cast<u32>(reader.number(s, key, here, 1, 1u << 24)); };
      item.shapes.push_back({side("m"), side("n"), side("k")});
    }
  }
  if (item.shapes.empty() && item.benches.empty())
    reader.fail("TUNE05", place, "it names nothing to time", "give 'shapes' of a product, or 'benches'");
  auto specs = reader.words(object, "specs", place);
  if (!specs.empty() && !item.benches.empty())
    reader.fail("TUNE04", place, "a bench has the specialisation that it is registered with",
                "leave 'specs' out, or give 'shapes' in place of 'benches'");
  if (specs.empty()) specs.emplace_back();
  if (const auto own = reader.words(object, "arch", place); !own.empty()) archs = own;
  for (const auto& arch : archs) reader.architecture(arch, place);
  for (const auto& spec : specs) {
    if (!spec.empty()) check_spec(reader, *item.entry, spec, place);
    for (const auto& arch : archs) {
      item.spec = spec, item.arch = arch;
      plan.items.push_back(item);
    }
  }
}

}  // namespace

Plan read_plan(const std::string& text, const std::string& file, const std::vector<std::string>& archs) {
  const Reader reader{file};
  Json j;
  try {
    j = Json::parse(text);
  } catch (const Json::exception& e) {
    reader.fail("TUNE01", "", fmt::format("it is not JSON: {}", e.what()),
                R"(a plan is {"iron_plan": 1, "entries": [{"kernel": ..., "shapes": [...]}]})");
  }
  reader.keys(j, "", {"iron_plan", "seed", "arch", "entries"});
  if (!j.contains("iron_plan") || j["iron_plan"] != 1)
    reader.fail("TUNE01", "", "it is no plan of this version", R"(write "iron_plan": 1)");
  if (!j.contains("entries") || !j["entries"].is_array() || j["entries"].empty())
    reader.fail("TUNE01", "", "it has no entries", R"(write "entries": [{"kernel": ..., "shapes": [...]}])");
  Plan plan;
  if (j.contains("seed")) plan.seed = reader.number(j, "seed", "", 0, ~u64{0} >> 1);
  auto all = reader.words(j, "arch", "");
  for (const auto& arch : all) reader.architecture(arch, "");
  if (all.empty()) all = archs;
  for (std::size_t i = 0; i < j["entries"].size(); ++i)
    read_entry(reader, j["entries"][i], fmt::format("entries[{}]", i), all, plan);
  return plan;
}

Plan default_plan(const std::vector<std::string>& archs) {
  const std::vector<ProductShape> square{{1024, 1024, 1024}, {4096, 4096, 4096}, {8192, 8192, 8192}},
      skinny{{16, 8192, 8192}, {128, 8192, 8192}}, one_row{{1, 8192, 8192}};
  const auto joined = [](std::vector<ProductShape> a, const std::vector<ProductShape>& b) {
    a.insert(a.end(), b.begin(), b.end());
    return a;
  };
  Plan plan;
  const auto add = [&](const std::string& kernel, const std::vector<ProductShape>& shapes) {
    for (const auto& arch : archs) {
      const bool hopper = target::profile(arch).atoms.has(target::Atom::roles);
      const auto& entry = find_kernel(standard_library(), kernel, "");
      if (entry.needs.empty() || hopper) plan.items.push_back({&entry, "", arch, shapes, {}, "the default plan"});
    }
  };
  for (const std::string dtype : {"bf16", "f16"}) {
    add("gemm_tma_cluster2_" + dtype, joined(square, skinny));
    add("gemm_tma_" + dtype, joined(joined(square, skinny), one_row));
    add("gemm_" + dtype, joined(joined({square[0], square[1]}, skinny), one_row));
    add("gemv_" + dtype, one_row);
    add("steel_gemm_64x64x16_2x2_" + dtype, {square[0], square[1]});
  }
  add("gemm_tma_e4m3_cluster2_bf16", joined({square[1], square[2]}, skinny));
  add("gemm_tma_e4m3_bf16", joined({square[1], square[2]}, skinny));
  add("gemm_f32", {square[0]});
  add("steel_gemm_64x64x16_2x2_f32", {square[0], square[1]});
  return plan;
}

namespace {

// The launch contract and the tensor unit's demands, with addresses that no device has.
void check_launch(const PlannedLaunch& l, const runtime::Compiled& compiled, const std::vector<BoundArg>& arguments) {
  std::vector<LaunchArg> args;
  std::uintptr_t address = 4096;
  for (const auto& a : arguments) {
    // NOLINTNEXTLINE(performance-no-int-to-ptr): an address that is checked and never read
    args.push_back(a.launch_arg(a.scalar ? nullptr : reinterpret_cast<void*>(address)));
    if (!a.scalar) address += (a.buffer.bytes + 4095) / 4096 * 4096;
  }
  auto problems = analysis::check(compiled.contract, l.geometry, args);
  if (problems.empty() && ir::uses_tier(*l.optimised)) try {
      for (const auto& box : ir::tensor_boxes(*l.optimised))
        runtime::cuda::plan_map(box, args[box.param], l.optimised->params[box.param].name);
    } catch (const Error& e) {
      problems = e.diagnostics();
    }
  if (problems.empty()) return;
  throw Error("TUNE05",
              fmt::format("{}: {} cannot run {}: {}", l.item->place, l.item->entry->full_name(),
                          l.shape ? to_string(*l.shape) : l.bench, problems.front().message),
              problems.front().fix.empty() ? "give another shape" : problems.front().fix);
}

LaunchGeometry geometry_of(const Grid& g) {
  return {{g.groups.x, g.groups.y, g.groups.z}, {g.threads.x, g.threads.y, g.threads.z}, g.items};
}

}  // namespace

std::vector<PlannedLaunch> launches_of(const Plan& plan) {
  std::vector<PlannedLaunch> out;
  for (const auto& item : plan.items) {
    if (!item.shapes.empty()) {
      const auto& form = kernels::find_gemm_member(item.entry->name)->form;
      const auto kernel = item.entry->instance();
      if (!item.spec.empty()) kernel->specialise(item.spec);
      const auto compiled = runtime::compile_for("cuda", kernel->record(item.entry->full_name()));
      const auto kind = kind_of(*kernel, form);
      for (const auto& s : item.shapes) {
        try {
          bind_product(*kernel, form, s, nullptr, nullptr, nullptr);
        } catch (const Error& e) {
          const auto& d = e.diagnostics().front();
          throw Error("TUNE05", fmt::format("{}: {}: {}", item.place, item.entry->full_name(), d.message), d.fix);
        }
        PlannedLaunch l{&item,
                        kernel->specialisation(),
                        compiled->optimised,
                        geometry_of(kernel->grid()),
                        kind.bytes(s),
                        flops(s),
                        s,
                        {},
                        0};
        check_launch(l, *compiled, kernel->arguments());
        out.push_back(std::move(l));
      }
    }
    for (const auto& name : item.benches) {
      const auto& bench = *std::find_if(item.entry->benches.begin(), item.entry->benches.end(),
                                        [&](const auto& b) { return b.shape == name; });
      Gen gen(plan.seed);
      const auto c = bench.make(gen);
      for (std::size_t i = 0; i < c.steps.size(); ++i) {
        const auto compiled = runtime::compile_for("cuda", c.steps[i].record());
        const u64 bytes = c.bytes_moved ? c.bytes_moved : bench::buffer_bytes(c);
        PlannedLaunch l{&item, "", compiled->optimised, geometry_of(c.steps[i].grid), bytes, c.flop_count, {}, name, i};
        check_launch(l, *compiled, c.steps[i].args);
        out.push_back(std::move(l));
      }
    }
  }
  return out;
}

}  // namespace iron::tool
