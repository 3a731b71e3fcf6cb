// The selector of the GEMM family. Its order is measured: docs/benchmarks/h200-tune.md.
#include "gemm/select.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "gemm/gemm.h"
#include "gemm/gemm_tma.h"
#include "gemm/split_k_tma.h"
#include "gemv/gemv.h"

namespace iron::kernels {

namespace {

const KernelEntry* entry_for(const GemmMember& member, const GemmProblem& p) {
  for (const auto& e : standard_library().entries()) {
    if (e.name != member.kernel || e.dtype != p.output) continue;
    const auto kernel = e.instance();
    if (kernel->find(member.form.a)->ops->dtype == p.input) return &e;
  }
  return nullptr;
}

constexpr u32 tile_rows = GemmTmaSpec{}.bm;

// Blocks of fewer columns, where even then no multiprocessor gets two: 256, 128 or 64. Measured at 1024^3, with blocks
// of 256, 128, 64: 0.40, 0.63, 0.86 of cuBLASLt; at 128 x 8192 x 8192 0.45, 0.73, 0.90, E4M3 0.45, 0.76, 0.95.
u32 block_columns_of(const GemmProblem& p, u32 units) {
  const GemmTmaSpec s;
  const auto fits = [&](u32 columns) {
    return u64{(p.m + s.bm - 1) / s.bm} * ((p.n + columns - 1) / columns) <= units;
  };
  for (const u32 columns : {64u, 128u})
    if (units > 1 && fits(columns)) return columns;
  return s.bn;
}
bool few_tiles(const GemmProblem& p, u32 units) { return block_columns_of(p, units) < GemmTmaSpec{}.bn; }
// As many stages as fit beside them.
u32 stages_of(u32 columns) { return columns == 64 ? 8 : columns == 128 ? 6 : GemmTmaSpec{}.stages; }

// The rows of A that a member for few of them takes, 0 for the others.
u32 few_rows_of(const GemmMember& member) {
  constexpr std::string_view prefix = "iron_gemm_tma_rows";
  return member.kernel.starts_with(prefix) ? static_cast<u32>(std::stoul(member.kernel.substr(prefix.size()))) : 0;
}
// Threadgroups that share the depth there: two where all pairs run at once; with more than 16 rows only where half of
// the multiprocessors would idle even so.
u32 few_rows_cluster(u32 rows, const GemmProblem& p, u32 units) {
  return (rows == 16 ? 2 : 4) * few_rows_spec(rows).tiles(p.m, p.n) <= units ? 2 : 1;
}
std::string few_rows_obstacle(u32 rows, const GemmProblem& p, u32 units) {
  if (p.m > rows) return fmt::format("it takes up to {} rows of A, there are {}", rows, p.m);
  if (few_rows_spec(rows).tiles(p.m, p.n) * 8 < units)
    return "rows of B are too few: the depth is better split further";
  return {};
}

// The threadgroups that share the depth, 0 for members that do not split it.
u32 split_of(const GemmMember& member) {
  constexpr std::string_view prefix = "iron_gemm_splitk_tma_cluster";
  return member.kernel.starts_with(prefix) ? static_cast<u32>(member.kernel.back() - '0') : 0;
}

// What is in the way of the Hopper members; empty if nothing is.
std::string hopper_obstacle(const GemmMember& member, const GemmProblem& p, std::span<const std::string> features,
                            u32 units) {
  if (std::find(features.begin(), features.end(), "roles") == features.end())
    return "the device has no roles, tensor copies and warpgroup products";
  if (!p.aligned) return "an operand does not start at a multiple of 16 bytes";
  const auto row = [](u32 columns, DType t) { return u64{columns} * dtype_size(t); };
  if (row(p.k, p.input) % 16)
    return fmt::format("rows of A and B have {} bytes, tensor copies take multiples of 16", row(p.k, p.input));
  if (const u32 rows = few_rows_of(member); rows > 0) return few_rows_obstacle(rows, p, units);
  if (const u32 cluster = split_of(member); cluster > 0) {
    if (p.e4m3 || !few_tiles(p, units)) return "there are tiles enough without a split of the depth";
    if (split_k_tma_for(p.m, p.n, p.k, units).cluster != cluster)
      return fmt::format("clusters of {} fit the multiprocessors worse or not at all", cluster);
    if ((p.k + 63) / 64 < 4 * cluster)
      return fmt::format("{} terms leave less than four blocks of 64 to each of {}", p.k, cluster);
    return {};  // C is written element by element
  }
  if (row(p.n, p.output) % 16)
    return fmt::format("rows of C have {} bytes, tensor copies take multiples of 16", row(p.n, p.output));
  if (member.kernel == "iron_gemm_tma_cluster2" || member.kernel == "iron_gemm_tma_e4m3_cluster2") {
    if (p.m <= tile_rows) return fmt::format("{} rows are one row of tiles: no two threadgroups share B", p.m);
    if (few_tiles(p, units)) return "blocks of 256 columns would leave more than half of the multiprocessors idle";
  }
  return {};
}

const WideGemm* wide_of(const GemmMember& member) {
  for (const auto& w : wide_gemm_members())
    if (member.kernel == "iron_" + w.name) return &w;
  return nullptr;
}

// What is in the way of blocks staged by accesses of 16 bytes.
std::string wide_obstacle(const WideGemm& w, const GemmProblem& p, std::span<const std::string> features, u32 units) {
  if (std::find(features.begin(), features.end(), "mma.f16") == features.end()) return "the device has no matrix unit";
  if (!p.aligned) return "an operand does not start at a multiple of 16 bytes";
  const u32 width = 16 / dtype_size(p.input);
  if (p.k % width || (!p.weight_major && p.n % width)) return "rows of A or B are not whole accesses of 16 bytes";
  if (wide_gemm_for(p.m, p.n, p.weight_major, p.input, units).name != w.name)
    return "another blocking has larger blocks or feeds more multiprocessors";
  return {};
}

std::string portable_obstacle(const GemmMember& member, const GemmProblem& p, std::span<const std::string> features,
                              u32 units) {
  if (const auto* w = wide_of(member)) return wide_obstacle(*w, p, features, units);
  if (member.form.m.empty() || member.kernel.starts_with("iron_gemv")) {
    if (p.m != 1) return fmt::format("it multiplies one row, there are {}", p.m);
    const auto form = member.kernel == "iron_gemv_warp_rows" ? GemvForm::warp_rows
                      : member.kernel == "iron_gemv_stream"  ? GemvForm::stream
                                                             : GemvForm::rows;
    // An operand at an odd address is not streamed.
    if (gemv_for(p.n, p.k, dtype_size(p.input), p.aligned ? units : 1) != form)
      return fmt::format("{} rows of B with {} terms are better shared out otherwise", p.n, p.k);
    return {};
  }
  if (p.weight_major) return {};
  const auto best = "iron_" + steel_gemm_for(p.m, p.n, p.k, p.output, units).name;
  return member.kernel == best ? std::string() : "another blocking costs less at the edges or feeds more cores";
}

std::string reason(const GemmMember& m) {
  if (few_rows_of(m) > 0) return "few rows of A: rows of B are those of the warpgroup's products";
  if (const u32 cluster = split_of(m); cluster > 0)
    return fmt::format("few tiles: clusters of {} share the depth and join their sums", cluster);
  if (m.rung == Rung::hopper)
    return m.kernel.ends_with("_cluster2") ? "tensor copies and warpgroup products, pairs of threadgroups share B"
                                           : "tensor copies and warpgroup products";
  if (m.kernel.starts_with("iron_gemv")) return "one row of A, each row of B is read once";
  if (wide_of(m)) return "the largest blocks that feed the multiprocessors, staged by accesses of 16 bytes";
  return m.form.weight_major ? "the tile for B with rows along k"
                             : "the blocking that wastes least and feeds the cores";
}

}  // namespace

GemmSelection select_gemm(const GemmProblem& p, std::span<const std::string> features, u32 units) {
  if (p.m == 0 || p.n == 0 || p.k == 0)
    throw Error("LIB03", fmt::format("a product of {} x {} by {} x {} is empty", p.m, p.k, p.k, p.n),
                "give every dimension at least 1, or skip the launch");
  // One row reads B once whatever multiplies it: the matrix unit's tiles would leave most multiprocessors idle.
  const auto first = [&](const GemmMember& m) { return p.m == 1 && m.kernel.starts_with("iron_gemv"); };
  std::vector<const GemmMember*> order;
  for (const bool now : {true, false})
    for (const auto& m : gemm_members())
      if (first(m) == now) order.push_back(&m);
  GemmSelection s;
  for (const auto* m : order) {
    if (m->form.e4m3 != p.e4m3 || m->form.weight_major != p.weight_major) continue;
    const auto* entry = entry_for(*m, p);
    if (!entry) continue;
    auto obstacle =
        m->rung == Rung::hopper ? hopper_obstacle(*m, p, features, units) : portable_obstacle(*m, p, features, units);
    if (!obstacle.empty()) {
      s.passed.push_back({entry->full_name(), std::move(obstacle)});
      continue;
    }
    s.member = m, s.entry = entry, s.why = reason(*m);
    if (m->rung == Rung::hopper) {
      std::string fields;
      if (const u32 rows = few_rows_of(*m); rows > 0 && few_rows_cluster(rows, p, units) > 1)
        fields = "cluster=2", s.why += ", two threadgroups share the depth";
      const bool tiled = !split_of(*m) && !few_rows_of(*m);
      if (const u32 columns = block_columns_of(p, units); tiled && few_tiles(p, units)) {
        fields = fmt::format("bn={},stages={}", columns, stages_of(columns));
        s.why += fmt::format(", blocks of {} columns for more threadgroups", columns);
      }
      // Two warpgroups share a block of B: 0.95 of cuBLASLt at 128 x 4096 x 4096, 0.75 with blocks of 64 x 128.
      if (split_of(*m) == 2 && p.m > 64) fields = "bm=128,bn=64,stages=7", s.why += ", blocks of 128 x 64";
      if (tiled && units > 1 && units != GemmTmaSpec{}.units)
        fields += fmt::format("{}units={}", fields.empty() ? "" : ",", units);
      if (!fields.empty()) s.spec = fmt::format("spec={{{}}}", fields);
    }
    return s;
  }
  throw Error(
      "LIB05",
      fmt::format("no member of the GEMM family multiplies {} to {} with B as {} here{}{}",
                  p.e4m3 ? "e4m3" : dtype_name(p.input), dtype_name(p.output), p.weight_major ? "[n, k]" : "[k, n]",
                  s.passed.empty() ? "" : ": ", s.passed.empty() ? "" : s.passed.front().why),
      "convert the operands to f32, f16 or bf16");
}

void bind_gemm(KernelInstance& kernel, const ProductForm& form, u32 m, u32 n, u32 k, void* a, void* b, void* c) {
  const auto buffer = [&](const std::string& name, void* data, u64 rows, u64 columns) {
    const auto* f = kernel.find(name);
    const u64 size = dtype_size(f->ops->dtype);
    const BufferRef ref{data, rows * columns * size, true};
    if (!f->ops->tensor) return f->ops->bind(f->at, ref);
    TensorShape t;
    t.rank = 2, t.dims[0] = columns, t.dims[1] = rows, t.strides[0] = size, t.strides[1] = columns * size;
    f->ops->bind_tensor(f->at, ref, t);
  };
  if (form.m.empty() && m != 1)
    throw Error("LIB05", fmt::format("the kernel multiplies one row, m is {}", m), "give m 1");
  buffer(form.a, a, m, k);
  buffer(form.b, b, form.weight_major ? n : k, form.weight_major ? k : n);
  buffer(form.c, c, m, n);
  const auto scalar = [&](const std::string& name, u64 bits) {
    if (!name.empty()) kernel.find(name)->ops->set(kernel.find(name)->at, bits);
  };
  const f32 one = 1;
  u32 one_bits = 0;
  std::memcpy(&one_bits, &one, sizeof one);
  scalar(form.m, m), scalar(form.n, n), scalar(form.k, k), scalar(form.scale, one_bits);
}

std::optional<GemmOperands> gemm_operands(const KernelEntry& entry, std::span<const BoundArg> arguments) {
  const auto* member = find_gemm_member(entry.name);
  if (!member) return std::nullopt;
  const auto& form = member->form;
  const auto arg = [&](const std::string& name) {
    const auto it = std::find_if(arguments.begin(), arguments.end(), [&](const auto& a) { return a.name == name; });
    return it == arguments.end() ? nullptr : &*it;
  };
  const auto *a = arg(form.a), *b = arg(form.b), *c = arg(form.c);
  if (!a || !b || !c) return std::nullopt;
  const auto number = [&](const std::string& name) {
    const auto* x = name.empty() ? nullptr : arg(name);
    return x ? static_cast<u32>(x->bits) : 0;
  };
  GemmOperands o;
  o.a = a->buffer.data, o.b = b->buffer.data, o.c = c->buffer.data;
  auto& p = o.problem;
  p.input = a->dtype, p.output = c->dtype, p.e4m3 = form.e4m3, p.weight_major = form.weight_major;
  p.k = number(form.k), p.m = form.m.empty() ? 1 : number(form.m);
  p.n = static_cast<u32>(c->buffer.bytes / dtype_size(p.output) / std::max(p.m, 1u));
  for (const void* at : {o.a, o.b, o.c}) p.aligned &= reinterpret_cast<std::uintptr_t>(at) % 16 == 0;
  return o;
}

GemmDispatch::Chosen& GemmDispatch::choose(const KernelEntry& launched, std::span<const BoundArg> arguments) {
  const auto o = gemm_operands(launched, arguments);
  if (!o) throw Error("LIB05", fmt::format("{} is no member of the GEMM family", launched.full_name()));
  const auto& p = o->problem;
  auto& kept = chosen_[{p.m, p.n, p.k, p.aligned ? 1u : 0u}];
  if (!kept) {
    auto fresh = std::make_unique<Chosen>();
    fresh->selection = select_gemm(p, features_, units_);
    if (fresh->selection.entry != &launched) {
      fresh->kernel = fresh->selection.entry->instance();
      if (!fresh->selection.spec.empty()) fresh->kernel->specialise(fresh->selection.spec);
    }
    kept = std::move(fresh);
  }
  if (kept->kernel) bind_gemm(*kept->kernel, kept->selection.member->form, p.m, p.n, p.k, o->a, o->b, o->c);
  return *kept;
}

}  // namespace iron::kernels
