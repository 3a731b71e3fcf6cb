// Derivation of launch contracts, the checks of geometry and arguments, and the memo.
#include "analysis/contract.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/contract_impl.h"
#include "ir/text.h"

namespace iron::analysis {

using namespace ir;

AccessOf access_of(const Kernel& k, OpId id) {
  const auto& op = k.op(id);
  AccessOf a;
  switch (op.code) {
    case Opcode::Load:
    case Opcode::LoadOr:
      a.lanes = op.type.lanes;
      break;
    case Opcode::Store:
    case Opcode::CopyAsync:
      a.lanes = k.type(k.operand(id, 2)).lanes, a.writes = true;
      break;
    case Opcode::AtomicRmw:
    case Opcode::AtomicCas:
    case Opcode::AtomicStore:
    case Opcode::Ticket:
      a.writes = true;
      break;
    case Opcode::AtomicLoad:
    case Opcode::WaitUntil:
      break;
    default:
      return a;
  }
  a.memory = k.operand(id, 0), a.index = k.operand(id, 1);
  a.align = dtype_size(k.type(a.memory).elem);
  if (k.info_of(id).imm == ImmKind::Memory) a.align = std::max(a.align, 1u << unpack<MemoryImm>(op.imm).align_log2);
  return a;
}

u64 byte_offset(const Kernel& k, OpId memory) {
  u64 offset = 0;
  for (; k.op(memory).code == Opcode::View || k.op(memory).code == Opcode::SharedAlias; memory = k.operand(memory, 0))
    offset += k.op(memory).imm;
  return offset;
}

bool uses_simdgroups(const Kernel& k) {
  bool found = false;
  k.walk([&](OpId id) {
    const auto& i = k.info_of(id);
    switch (k.op(id).code) {
      case Opcode::LaneId:
      case Opcode::SimdgroupId:
      case Opcode::SimdgroupCount:
        found = true;
        return;
      case Opcode::Barrier:
      case Opcode::Ticket:
        return;
      default:
        found = found || i.has(Convergent | TileOp);
    }
  });
  return found;
}

u64 shared_bytes(const Kernel& k) {
  u64 total = 0;
  k.walk([&](OpId id) {
    if (k.op(id).code == Opcode::SharedNew) total += (k.op(id).imm * dtype_size(k.type(id).elem) + 15) / 16 * 16;
  });
  return total;
}

namespace {
bool tracked(Type t) { return t.is_scalar() && (is_int(t.elem) || t.elem == DType::index || t.elem == DType::boolean); }

// Marks what the checks depend on and lists, per region, the ops to visit.
class Slicer {
 public:
  explicit Slicer(Contract::Impl& c) : c_(c), k_(c.kernel) {}

  void run() {
    c_.needed.assign(k_.op_capacity(), 0);
    c_.steps.assign(k_.region_capacity(), {});
    c_.results.assign(k_.op_capacity(), {});
    k_.walk([&](OpId id) {
      if (k_.op(id).code == Opcode::Result) c_.results[k_.operand(id, 0)].push_back(id);
    });
    k_.walk([&](OpId id) { roots(id); });
    region(k_.body());
  }

 private:
  void roots(OpId id) {
    const auto& op = k_.op(id);
    if (op.type.is_index() && op.type.is_scalar()) need(id);
    if (const AccessOf a = access_of(k_, id); a.memory != none) need(a.index);
    switch (op.code) {
      case Opcode::LoadOr:
        need(k_.operand(id, 2));
        break;
      case Opcode::If:
      case Opcode::Assume:
        need(k_.operand(id, 0));
        break;
      case Opcode::For:
        for (u32 i = 0; i < 3; ++i) need(k_.operand(id, i));
        break;
      case Opcode::TileMma:
      case Opcode::TileLoad:
      case Opcode::TileStore:
        for (const OpId v : k_.operands(id)) need(v);
        break;
      default:
        break;
    }
  }

  void need(OpId v) {
    if (!tracked(k_.type(v)) || c_.needed[v]) return;
    c_.needed[v] = 1;
    const auto& op = k_.op(v);
    if (op.code == Opcode::Result) {
      const OpId owner = k_.operand(v, 0);
      if (k_.op(owner).code == Opcode::For) {
        need(k_.region(k_.region_of(owner, 0)).args[op.imm + 1]);
        return;
      }
      for (u32 r = 0; r < k_.op(owner).region_count; ++r) {
        const OpId yield = k_.terminator(k_.region_of(owner, r));
        if (yield != none) need(k_.operand(yield, static_cast<u32>(op.imm)));
      }
      return;
    }
    if (op.code == Opcode::Arg) {
      const OpId owner = k_.region(op.region).parent;
      if (op.imm == 0 || owner == none || k_.op(owner).code != Opcode::For) return;
      const u32 i = static_cast<u32>(op.imm - 1);
      need(k_.operand(owner, i + 3));
      need(k_.operand(k_.terminator(op.region), i));
      need(c_.results[owner][i]);
      return;
    }
    for (const OpId o : k_.operands(v)) need(o);
  }

  bool region(RegionId r) {
    for (const OpId id : k_.region(r).ops) {
      const auto& op = k_.op(id);
      bool step = false;
      for (u32 i = 0; i < op.region_count; ++i) step |= region(k_.region_of(id, i));
      switch (op.code) {
        case Opcode::Param:
        case Opcode::Result:
        case Opcode::Yield:
          continue;
        case Opcode::For:
        case Opcode::Assume:
        case Opcode::TileMma:
        case Opcode::TileLoad:
        case Opcode::TileStore:
          step = true;
          break;
        default:
          for (const OpId v : c_.results[id]) step |= c_.needed[v] != 0;
          step = step || c_.needed[id] || access_of(k_, id).memory != none;
      }
      if (step) c_.steps[r].push_back(id);
    }
    return !c_.steps[r].empty();
  }

  Contract::Impl& c_;
  const Kernel& k_;
};
}  // namespace

const Kernel& Contract::kernel() const { return impl_->kernel; }
u64 Contract::shared_bytes() const { return impl_->shared_bytes; }
bool Contract::uses_simdgroups() const { return impl_->uses_simdgroups; }
std::span<const u32> Contract::alignments() const { return impl_->alignments; }

Contract derive(const Kernel& k) {
  auto c = std::make_shared<Contract::Impl>();
  c->kernel = k;
  c->alignments.assign(k.params.size(), 1);
  for (std::size_t i = 0; i < k.params.size(); ++i)
    if (k.params[i].is_buffer()) c->alignments[i] = dtype_size(k.params[i].elem);
  k.walk([&](OpId id) {
    const auto& op = k.op(id);
    if (op.code == Opcode::Call) {
      Diagnostic d;
      d.code = "LAUNCH05",
      d.message = fmt::format("the call of {} is not inlined, so the kernel has no launch contract", k.texts[op.imm]);
      d.file = k.location(id).file, d.line = k.location(id).line, d.kernel = k.name, d.fix = "run kernel_inline first";
      throw Error(std::move(d));
    }
    c->uses_items |= op.code == Opcode::ItemCount;
    c->uses_group_count |= op.code == Opcode::GroupCount;
    OpId memory = op.code == Opcode::View ? id : none;
    u32 align = memory == none ? 1 : dtype_size(op.type.elem);
    if (const AccessOf a = access_of(k, id); a.memory != none) memory = a.memory, align = a.align;
    if (memory == none) return;
    if (const OpId root = memory_root(k, memory); k.op(root).code == Opcode::Param) {
      auto& of = c->alignments[k.op(root).imm];
      of = std::max(of, align);
    }
  });
  c->shared_bytes = analysis::shared_bytes(k);
  c->uses_simdgroups = analysis::uses_simdgroups(k);
  Slicer(*c).run();
  return Contract(std::move(c));
}

namespace {
class Checker {
 public:
  Checker(const Contract::Impl& c, const LaunchGeometry& g, std::span<const LaunchArg> args, const DeviceLimits& limits)
      : c_(c), k_(c.kernel), g_(g), args_(args), limits_(limits) {}

  /// Problems of geometry and arguments; `usable` says whether the body can be evaluated at all.
  std::vector<Diagnostic> run(bool& usable) {
    const bool geometry_usable = geometry();  // both report before either stops the check
    usable = arguments() && geometry_usable;
    if (usable) aliasing();
    return std::move(found_);
  }

 private:
  void say(std::string_view code, std::string message, std::string fix, OpId at = none) {
    Diagnostic d;
    d.code = code, d.message = std::move(message), d.fix = std::move(fix), d.kernel = k_.name;
    if (at != none) d.file = k_.location(at).file, d.line = k_.location(at).line;
    found_.push_back(std::move(d));
  }
  static std::string dims(const Dim3& d) { return fmt::format("{} x {} x {}", d.x, d.y, d.z); }

  bool geometry() {
    const auto& [groups, threads, items] = g_;
    bool sound = true;
    if (threads.x == 0 || threads.y == 0 || threads.z == 0) {
      say("D02", fmt::format("a threadgroup of {} threads", dims(threads)),
          "every dimension of the threadgroup is at least 1");
      return false;
    }
    if (groups.x == 0 || groups.y == 0 || groups.z == 0) {
      say("D02", fmt::format("a grid of {} threadgroups", dims(groups)),
          "every dimension of the grid is at least 1; skip the launch when there is nothing to do");
      return false;
    }
    const u64 count = threads.count();
    const auto& most = limits_.max_threads;
    if (count > limits_.max_threads_per_group || threads.x > most.x || threads.y > most.y || threads.z > most.z)
      say("D27",
          fmt::format("a threadgroup of {} = {} threads, the device allows {} ({} by dimension)", dims(threads), count,
                      limits_.max_threads_per_group, dims(most)),
          fmt::format("use at most {} threads per threadgroup", limits_.max_threads_per_group));
    if (groups.x > limits_.max_groups.x || groups.y > limits_.max_groups.y || groups.z > limits_.max_groups.z)
      say("D03", fmt::format("a grid of {} threadgroups, the device allows {}", dims(groups), dims(limits_.max_groups)),
          "split the launch, or give each threadgroup more work");
    // Ids of the whole grid must be countable.
    const long double total =
        static_cast<long double>(groups.x) * groups.y * groups.z * static_cast<long double>(count);
    if (total >= 0x1p62L) {
      say("D03",
          fmt::format("a grid of {} threadgroups of {} threads has more threads than 62 bits count", dims(groups),
                      count),
          "the grid is counted in threadgroups, not in threads");
      sound = false;
    }
    if (c_.uses_simdgroups && count % limits_.simd_width != 0)
      say("D02", fmt::format("a threadgroup of {} threads, but the kernel uses simdgroups and needs whole ones", count),
          fmt::format("use a multiple of {} threads per threadgroup", limits_.simd_width));
    if (c_.shared_bytes > limits_.shared_bytes)
      say("D27",
          fmt::format("the kernel's threadgroup arrays take {} bytes, the device has {}", c_.shared_bytes,
                      limits_.shared_bytes),
          "use a variant with smaller tiles");
    if (sound && k_.mode == Mode::Elementwise && c_.uses_items) {
      const u64 needed = std::max<u64>(1, items / count + (items % count != 0));
      if (groups.count() > needed)
        say("D03",
            fmt::format("{} threadgroups of {} threads for {} items, {} are enough", groups.count(), count, items,
                        needed),
            "the grid is counted in threadgroups, not in threads");
      else if (groups.count() < needed && !c_.uses_group_count)
        say("D03",
            fmt::format("{} threadgroups of {} threads reach {} of {} items", groups.count(), count,
                        groups.count() * count, items),
            fmt::format("launch {} threadgroups", needed));
    }
    return sound;
  }

  bool arguments() {
    if (args_.size() != k_.params.size()) {
      std::string names;
      for (const auto& p : k_.params) names += (names.empty() ? "" : ", ") + p.name;
      say("D25", fmt::format("{} arguments for {} parameters ({})", args_.size(), k_.params.size(), names),
          "pass one argument for each parameter, in order");
      return false;
    }
    bool sound = true;
    for (std::size_t i = 0; i < args_.size(); ++i) {
      const auto& p = k_.params[i];
      const auto& a = args_[i];
      if (!p.is_buffer()) {
        if (a.data != nullptr)
          say("D25", fmt::format("{} is a scalar of type {}, a buffer is passed", p.name, dtype_name(p.elem)),
              "pass its value", p.op),
              sound = false;
        const u32 bits = dtype_bits(p.elem);
        if (bits < 64 && (a.scalar >> bits) != 0)
          say("D25",
              fmt::format("the value of {} is {:#x}, which does not fit {}", p.name, a.scalar, dtype_name(p.elem)),
              "pass the bits of a value of that type, zero-extended", p.op),
              sound = false;
        continue;
      }
      const u32 size = dtype_size(p.elem), align = c_.alignments[i];
      if (a.data == nullptr && a.bytes > 0)
        say("D25", fmt::format("buffer {} of {} bytes has no memory", p.name, a.bytes), "allocate it before the launch",
            p.op);
      if (a.bytes % size != 0)
        say("D25",
            fmt::format("buffer {} has {} bytes, no multiple of the {} bytes of {}", p.name, a.bytes, size,
                        dtype_name(p.elem)),
            "pass a buffer of whole elements", p.op);
      if (reinterpret_cast<std::uintptr_t>(a.data) % align != 0)
        say("D25",
            fmt::format(
                "buffer {} starts at an address that is no multiple of {} bytes, which the kernel's accesses need",
                p.name, align),
            "allocate with Iron, or start slices at that alignment", p.op);
      if (const auto start = reinterpret_cast<std::uintptr_t>(a.data); start + a.bytes < start)
        say("D25", fmt::format("buffer {} of {} bytes reaches beyond the end of memory", p.name, a.bytes),
            "pass the buffer's size in bytes", p.op),
            sound = false;
    }
    return sound;
  }

  void aliasing() {
    for (std::size_t i = 0; i < args_.size(); ++i) {
      if (!k_.params[i].is_buffer() || args_[i].bytes == 0) continue;
      const auto a = reinterpret_cast<std::uintptr_t>(args_[i].data);
      for (std::size_t j = i + 1; j < args_.size(); ++j) {
        if (!k_.params[j].is_buffer() || args_[j].bytes == 0) continue;
        if (k_.params[i].kind == ParamKind::in && k_.params[j].kind == ParamKind::in) continue;
        const auto b = reinterpret_cast<std::uintptr_t>(args_[j].data);
        if (a + args_[i].bytes <= b || b + args_[j].bytes <= a) continue;
        const auto from = std::max(a, b), to = std::min(a + args_[i].bytes, b + args_[j].bytes);
        say("D26",
            fmt::format("{} ({}) and {} ({}) share {} bytes, from byte {} of {}", k_.params[i].name,
                        name(k_.params[i].kind), k_.params[j].name, name(k_.params[j].kind), to - from, from - a,
                        k_.params[i].name),
            "pass separate buffers; a kernel that works in place takes one InOut", k_.params[i].op);
      }
    }
  }

  const Contract::Impl& c_;
  const Kernel& k_;
  const LaunchGeometry& g_;
  std::span<const LaunchArg> args_;
  const DeviceLimits& limits_;
  std::vector<Diagnostic> found_;
};

bool matches(const MemoEntry& e, const LaunchGeometry& g, std::span<const LaunchArg> args, u32 simd_width) {
  if (e.simd_width != simd_width || !(e.geometry == g)) return false;
  for (std::size_t i = 0; i < args.size(); ++i)
    if (e.numbers[2 * i] != args[i].scalar || e.numbers[2 * i + 1] != args[i].bytes) return false;
  return true;
}

std::shared_ptr<const Verdict> body_verdict(const Contract::Impl& c, const LaunchGeometry& g,
                                            std::span<const LaunchArg> args, u32 simd_width) {
  {
    const std::lock_guard hold(c.memo_lock);
    for (const auto& e : c.memo)
      if (matches(e, g, args, simd_width)) return e.verdict;
  }
  auto verdict = std::make_shared<const Verdict>(evaluate_body(c, g, args, simd_width));
  MemoEntry e{g, simd_width, {}, verdict};
  for (const auto& a : args) e.numbers.push_back(a.scalar), e.numbers.push_back(a.bytes);
  const std::lock_guard hold(c.memo_lock);
  if (c.memo.size() < Contract::Impl::memo_size)
    c.memo.push_back(std::move(e));
  else
    c.memo[c.memo_next++ % Contract::Impl::memo_size] = std::move(e);
  return verdict;
}

std::vector<Diagnostic> check_all(const Contract::Impl& c, const LaunchGeometry& g, std::span<const LaunchArg> args,
                                  const DeviceLimits& limits, std::shared_ptr<const Verdict>& verdict) {
  bool usable = false;
  auto found = Checker(c, g, args, limits).run(usable);
  if (!usable) return found;
  verdict = body_verdict(c, g, args, limits.simd_width);
  found.insert(found.end(), verdict->problems.begin(), verdict->problems.end());
  if (limits.max_trips && verdict->needs.max_trips > limits.max_trips) {
    Diagnostic d;
    d.code = "LAUNCH03", d.kernel = c.kernel.name;
    d.message = fmt::format("a thread may run {} loop trips, the device's watchdog tolerates {}",
                            verdict->needs.max_trips, limits.max_trips);
    d.fix = "split the launch";
    found.push_back(std::move(d));
  }
  return found;
}
}  // namespace

std::vector<Diagnostic> check(const Contract& contract, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
                              const DeviceLimits& limits) {
  std::shared_ptr<const Verdict> verdict;
  return check_all(contract.impl(), geometry, args, limits, verdict);
}

Verdict evaluate(const Contract& contract, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
                 const DeviceLimits& limits) {
  std::shared_ptr<const Verdict> body;
  Verdict v;
  v.problems = check_all(contract.impl(), geometry, args, limits, body);
  if (body) v.needs = body->needs;
  v.needs.shared_bytes = contract.shared_bytes();
  v.needs.threads_multiple = contract.uses_simdgroups() ? limits.simd_width : 1;
  return v;
}

std::vector<Diagnostic> check_dtypes(const Kernel& k, std::span<const DType> given) {
  std::vector<Diagnostic> found;
  for (std::size_t i = 0; i < std::min(given.size(), k.params.size()); ++i) {
    const auto& p = k.params[i];
    if (given[i] == p.elem) continue;
    Diagnostic d;
    d.code = "D25", d.kernel = k.name, d.file = k.location(p.op).file, d.line = k.location(p.op).line;
    d.message = fmt::format("{} {} holds {}, {} is passed", p.is_buffer() ? "buffer" : "scalar", p.name,
                            dtype_name(p.elem), dtype_name(given[i]));
    d.fix = fmt::format("convert it, or use the variant of the kernel for {}", dtype_name(given[i]));
    found.push_back(std::move(d));
  }
  return found;
}

}  // namespace iron::analysis
