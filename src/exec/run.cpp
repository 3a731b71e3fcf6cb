// Launching: arguments, threadgroups in flight, the schedule of simdgroups, deadlock.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "exec/tier.h"
#include "ir/eval.h"
#include "passes/expand_math.h"

namespace iron::exec {

using namespace ir;

namespace {
u32 checked_threads(const Kernel& k, const LaunchGeometry& g, const Options& o) {
  const u64 threads = g.threads.count();
  if (threads == 0 || threads > 1024)
    throw Error(
        "EXEC80",
        fmt::format("kernel {}: a threadgroup of {} x {} x {} threads", k.name, g.threads.x, g.threads.y, g.threads.z),
        "launch 1 to 1024 threads a threadgroup");
  if (g.groups.count() >= nobody)
    throw Error("EXEC80", fmt::format("kernel {}: a grid of {} threadgroups", k.name, g.groups.count()),
                "launch fewer than 2^32 - 1 threadgroups");
  if (o.width < 4 || o.width > 64 || !std::has_single_bit(o.width))
    throw Error("EXEC80", fmt::format("a simd width of {}", o.width), "4, 8, 16, 32 or 64");
  if (o.width != 32 && !k.width_generic)
    throw Error("EXEC80",
                fmt::format("kernel {} is not generic over the simd width, which would be {}", k.name, o.width),
                "run it at 32 lanes, or declare it generic");
  return static_cast<u32>(threads);
}

/// The shape of a tensor, which lies in its buffer.
TensorShape checked_tensor(const Kernel& k, const Param& p, const LaunchArg& a) {
  const TensorShape& t = a.tensor;
  const u32 size = dtype_size(p.elem);
  u64 end = size;
  for (u32 d = 0; d < t.rank; ++d) end += t.dims[d] ? (t.dims[d] - 1) * t.strides[d] : 0;
  const bool empty = std::any_of(t.dims, t.dims + t.rank, [](u64 d) { return d == 0; });
  if (t.rank == 0 || t.rank > 5 || t.strides[0] != size || (!empty && end > a.bytes))
    throw Error("EXEC80",
                fmt::format("kernel {}: tensor {} of rank {} needs {} bytes, its buffer has {}", k.name, p.name, t.rank,
                            end, a.bytes),
                "give it 1 to 5 dimensions, packed along the innermost, that lie inside the buffer");
  return t;
}
}  // namespace

Machine::Machine(const Kernel& k, const LaunchGeometry& g, std::span<const LaunchArg> args, const Options& o)
    : kernel(k),
      geometry(g),
      options(o),
      width(o.width),
      threads(checked_threads(k, g, o)),
      program(decode(k, threads, o)),
      random_(o.seed) {
  if (args.size() != k.params.size())
    throw Error("EXEC80",
                fmt::format("kernel {} takes {} arguments, {} were given", k.name, k.params.size(), args.size()),
                "one argument a parameter, in their order");
  scalars.resize(args.size());
  buffers.resize(args.size());
  tensors.resize(args.size());
  for (std::size_t i = 0; i < args.size(); ++i) {
    const Param& p = k.params[i];
    scalars[i] = args[i].scalar;
    if (!p.is_buffer()) continue;
    if (!args[i].data && args[i].bytes)
      throw Error("EXEC80",
                  fmt::format("kernel {}: buffer {} has {} bytes at no address", k.name, p.name, args[i].bytes),
                  "give it memory");
    Buffer& b = buffers[i];
    b.data = static_cast<u8*>(args[i].data);
    b.bytes = args[i].bytes;
    // Host vectors start at multiples of 16; device buffers at 256. Only a slice that is less aligned keeps its
    // address.
    const auto address = reinterpret_cast<std::uintptr_t>(args[i].data);
    b.base_misalign = address % 16 ? static_cast<u32>(address % 256) : 0;
    b.tracked = p.kind != ParamKind::in;
    b.shadow.granule_log2 = program.param_granule_log2[i];
    b.shadow.needs_write = p.kind == ParamKind::out;
    b.shadow.tier = program.tier != nullptr;
    if (p.tensor) tensors[i] = checked_tensor(k, p, args[i]);
    const bool in_turn = options.schedule == Schedule::program || options.schedule == Schedule::reverse;
    b.shadow.logs = options.accepts && in_turn && !program.orders && !program.waits && !program.tier;
    if (b.tracked) b.shadow.reset(b.bytes);
  }
  check_overlaps(args);
  if (program.tier) tier = std::make_shared<Tier>(*this, *program.tier);
}

// R7: what is written overlaps nothing else.
void Machine::check_overlaps(std::span<const LaunchArg> args) {
  for (std::size_t i = 0; i < args.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const Param &a = kernel.params[j], &b = kernel.params[i];
      if (!a.is_buffer() || !b.is_buffer() || (a.kind == ParamKind::in && b.kind == ParamKind::in)) continue;
      const u8 *x = buffers[j].data, *y = buffers[i].data;
      if (!args[i].bytes || !args[j].bytes || x + buffers[j].bytes <= y || y + buffers[i].bytes <= x) continue;
      report({code::overlap, fmt::format("buffers {} and {} overlap, and one of them is written", a.name, b.name),
              "for work in place declare one InOut<T>"},
             b.op, a.op);
      stop = true;
    }
}

// --- threadgroups
namespace {
bool varies_by_simdgroup(Opcode c) {
  return c == Opcode::ThreadId || c == Opcode::ThreadPos || c == Opcode::GridThreadId || c == Opcode::GridPos ||
         c == Opcode::SimdgroupId;
}
bool varies_by_lane(Opcode c) { return c == Opcode::LaneId || (varies_by_simdgroup(c) && c != Opcode::SimdgroupId); }

template <class T>
void fill(const Simdgroup& s, u32 at, u32 n, u64 bits) {
  std::fill_n(reg<T>(s, at), n, static_cast<T>(bits));
}
void fill_bits(const Simdgroup& s, u32 at, u32 size, u32 n, u64 bits) {
  switch (size) {
    case 1:
      return fill<u8>(s, at, n, bits);
    case 2:
      return fill<u16>(s, at, n, bits);
    case 4:
      return fill<u32>(s, at, n, bits);
    default:
      return fill<u64>(s, at, n, bits);
  }
}
}  // namespace

void Machine::prepare(Group& g) {
  const u32 count = (threads + width - 1) / width;
  g.simdgroups.resize(count);
  for (u32 i = 0; i < count; ++i) {
    Simdgroup& s = g.simdgroups[i];
    s.index = i, s.group = &g;
    const u32 lanes = std::min(width, threads - i * width);
    s.exists = lanes == 64 ? ~u64{0} : (u64{1} << lanes) - 1;
    s.storage = std::make_unique<std::byte[]>(program.register_bytes + 64);
    const auto address = reinterpret_cast<std::uintptr_t>(s.storage.get());
    s.regs = s.storage.get() + (64 - address % 64) % 64;
    s.arrays.resize(program.array_bytes);
    s.written.resize(program.array_elements);
    // Most presets are the same for all simdgroups: they are copied from the first.
    if (i > 0) std::memcpy(s.regs, g.simdgroups[0].regs, program.preset_bytes);
    for (const auto& p : program.presets)
      if (i == 0 || varies_by_simdgroup(kernel.op(p.op).code)) preset(s, p);
  }
  for (const auto& a : program.shared) {
    g.shared.emplace_back(a.bytes);
    Shadow shadow;
    shadow.granule_log2 = a.granule_log2, shadow.needs_write = true, shadow.tier = program.tier != nullptr;
    shadow.filled_by_copies = a.filled_by_copies;
    g.shared_shadow.push_back(std::move(shadow));
  }
  for (u32 owner = 0; owner <= count; ++owner)
    for (const auto& t : program.tiles) {
      const std::size_t n = t.whole_group == (owner == 0) ? std::size_t{t.map.rows} * t.map.cols : 0;
      g.tiles.push_back({std::vector<u64>(n), std::vector<u8>(n)});
    }
}

void Machine::start_group(Group& g, u32 id) {
  if (g.simdgroups.empty()) prepare(g);
  g.id = id;
  g.x = id % geometry.groups.x, g.y = id / geometry.groups.x % geometry.groups.y,
  g.z = id / geometry.groups.x / geometry.groups.y;
  g.epoch = 0, g.running = static_cast<u32>(g.simdgroups.size()), g.started = true;
  g.common.clear(), g.own.clear(), g.fenced.clear(), g.seen.clear(), g.uniform.clear(), g.copies.clear();
  for (std::size_t i = 0; i < g.shared.size(); ++i) {
    g.shared_shadow[i].reset(program.shared[i].bytes);
    std::fill(g.shared[i].begin(), g.shared[i].end(), u8{0xcd});  // undefined contents, and visibly so
  }
  for (auto& t : g.tiles) std::fill(t.written.begin(), t.written.end(), u8{0});
  for (auto& s : g.simdgroups) {
    s.pc = 0, s.simd_epoch = 0, s.status = Status::next;
    s.frames.clear(), s.visits.clear();
    s.set_mask(s.exists);
    for (const auto& p : program.group_presets) preset(s, p);
  }
}

void Machine::preset(Simdgroup& s, const Preset& p) {
  const auto& op = kernel.op(p.op);
  const auto axis = [&](u64 x, u64 y, u64 z) { return op.imm == 0 ? x : op.imm == 1 ? y : z; };
  const u32 size = dtype_size(op.type.elem);
  const bool lanes_differ = varies_by_lane(op.code);
  for (u32 l = 0; l < (lanes_differ ? width : 1); ++l) {
    const u64 t = u64{s.index} * width + l;
    const Dim3& d = geometry.threads;
    const u64 px = t % d.x, py = t / d.x % d.y, pz = t / d.x / d.y;
    const Group& g = *s.group;
    u64 v = 0;
    switch (op.code) {
      case Opcode::Const:
        v = op.imm;
        break;
      case Opcode::Param:
        v = scalars[op.imm];
        break;
      case Opcode::ThreadId:
        v = t;
        break;
      case Opcode::ThreadPos:
        v = axis(px, py, pz);
        break;
      case Opcode::GroupId:
        v = axis(g.x, g.y, g.z);
        break;
      case Opcode::GroupCount:
        v = axis(geometry.groups.x, geometry.groups.y, geometry.groups.z);
        break;
      case Opcode::GroupSize:
        v = threads;
        break;
      case Opcode::GroupDim:
        v = axis(d.x, d.y, d.z);
        break;
      case Opcode::GridThreadId:
        v = u64{g.id} * threads + t;
        break;
      case Opcode::GridPos:
        v = axis(u64{g.x} * d.x + px, u64{g.y} * d.y + py, u64{g.z} * d.z + pz);
        break;
      case Opcode::LaneId:
        v = l;
        break;
      case Opcode::SimdgroupId:
        v = s.index;
        break;
      case Opcode::SimdgroupCount:
        v = (threads + width - 1) / width;
        break;
      case Opcode::SimdWidth:
        v = width;
        break;
      case Opcode::ItemCount:
        v = geometry.items;
        break;
      case Opcode::Length: {
        OpId root = kernel.operand(p.op, 0);
        const u32 elem = dtype_size(kernel.type(root).elem);
        u64 offset = 0;
        for (; kernel.op(root).code == Opcode::View || kernel.op(root).code == Opcode::SharedAlias;
             root = kernel.operand(root, 0))
          offset += kernel.op(root).imm;
        const u64 bytes = kernel.op(root).code == Opcode::Param
                              ? buffers[kernel.op(root).imm].bytes
                              : kernel.op(root).imm * dtype_size(kernel.type(root).elem);
        v = offset < bytes ? (bytes - offset) / elem : 0;
        break;
      }
      default:
        break;
    }
    if (!lanes_differ) return fill_bits(s, p.reg, size, op.type.lanes * width, v);
    for (u32 e = 0; e < op.type.lanes; ++e) set_lane_bits(s, p.reg, size, e * width + l, v);
  }
}

void Machine::show_written() {
  for (u32 i = 0; i < buffers.size(); ++i) {
    Shadow& shadow = buffers[i].shadow;
    for (const u64 cell : shadow.log) {
      if (stop) break;
      if (!options.accepts(i, cell << shadow.granule_log2, 1u << shadow.granule_log2)) stop = result.rejected = true;
    }
    shadow.log.clear();
  }
}

// All that the group did so far is before all that it does from now on.
void Machine::passed_barrier(Group& g) {
  ++g.epoch;
  if (tier) {
    std::vector<Simdgroup*> all;
    for (auto& s : g.simdgroups) all.push_back(&s);
    return tier->barrier(all);
  }
  for (auto& [thread, clock] : g.own) g.common.merge(clock);
  g.own.clear();
}

// --- running
void Machine::advance(Simdgroup& s, u64 budget, u64& progress) {
  const Instr* const base = program.code.data();
  auto& stats = result.statistics;
  while (!stop) {
    const Instr& in = base[s.pc++];
    const Status status = in.fn(*this, s, in);
    ++stats.instructions;
    stats.lane_ops += s.active;
    if (status == Status::next) continue;
    if (status == Status::access) {
      ++progress, ++stats.accesses;
      if (--budget == 0) return;
      continue;
    }
    if (status == Status::wait) {  // polled again later
      --s.pc;
      s.status = status;
      return;
    }
    ++progress;
    s.status = status;
    if (status == Status::rendezvous || status == Status::collective) --s.pc;
    if (status == Status::done && --s.group->running == 0) {
      s.group->started = false;
      end_copies(*s.group);
    }
    return;
  }
}

// Lets a group go on whose simdgroups have all arrived; reports those that cannot meet.
void Machine::meet(Group& g, u64& progress) {
  const Simdgroup *first = nullptr, *other = nullptr, *gone = nullptr;
  for (const auto& s : g.simdgroups) {
    if (s.status == Status::done) {
      gone = &s;
      continue;
    }
    if (s.status != Status::rendezvous) return;
    if (!first)
      first = &s;
    else if (s.pc != first->pc)
      other = &s;
  }
  if (!first) return;
  const Instr& in = program.code[first->pc];
  ++progress;
  if (other || gone) {
    const auto what = kernel.info_of(in.op).text;
    const OpId there = other ? program.code[other->pc].op : none;
    if (fresh(code::barrier_mismatch, in.op, there)) {
      if (other)
        report({code::barrier_mismatch,
                fmt::format("simdgroup {} of threadgroup {} is at {} while simdgroup {} is at {}", first->index, g.id,
                            what, other->index, kernel.info_of(there).text),
                "let all threads of the threadgroup reach the same barriers in the same order"},
               in.op, there, "the other simdgroup stands here");
      else
        report({code::barrier_mismatch,
                fmt::format("simdgroup {} of threadgroup {} is at {}, which simdgroup {} never reaches: it has ended",
                            first->index, g.id, what, gone->index),
                "let all threads of the threadgroup reach the barrier"},
               in.op);
    }
    for (auto& s : g.simdgroups) s.status = Status::done;  // nothing after this would mean anything
    g.running = 0, g.started = false;
    return;
  }
  in.meet(*this, g, in);
  for (auto& s : g.simdgroups) ++s.pc, s.status = Status::next;
}

void Machine::deadlock() {
  stop = true;
  if (tier && tier->mismatched(resident_)) return;
  bool first = true;
  const u64 waiting_groups = order_.size() - next_group_;
  for (const auto& g : resident_) {
    if (!g->started) continue;
    for (const auto& s : g->simdgroups) {
      if (s.status == Status::next || s.status == Status::access || s.status == Status::done) continue;
      const OpId op = program.code[s.pc].op;
      if (!fresh(code::deadlock, op)) continue;
      std::string message =
          fmt::format("deadlock: simdgroup {} of threadgroup {} waits at {} and no thread can make it go on", s.index,
                      g->id, kernel.info_of(op).text);
      if (tier) message += tier->waiting_for(s);
      if (first && waiting_groups)
        message += fmt::format("; {} threadgroups have not started, since only {} are resident", waiting_groups,
                               resident_.size());
      report(
          {code::deadlock, message,
           tier ? "let both sides of a pipeline run the same trips, release what was waited for, expect the bytes "
                  "that come, and hand on each turn"
                : "wait only for threadgroups that took a lower ticket(), and store with release what is waited for"},
          op);
      first = false;
    }
  }
}

// Threadgroups of a cluster start together, and end together: a peer may reach each of them until then.
u64 Machine::start_groups() {
  const u32 cluster = tier ? tier->cluster() : 1;
  u64 started = 0;
  for (std::size_t first = 0; first < resident_.size(); first += cluster) {
    const std::span groups(resident_.data() + first, cluster);
    if (std::any_of(groups.begin(), groups.end(), [](const auto& g) { return g->started; })) continue;
    if (tier && groups[0]->tier) {
      tier->finish(groups);
      for (auto& g : groups) g->tier.reset();
    }
    if (stop || next_group_ >= order_.size()) continue;
    for (auto& g : groups) start_group(*g, order_[next_group_++]), ++started;
    if (tier) tier->start(groups);
  }
  return started;
}

Result Machine::run() {
  const u64 total = geometry.groups.count();
  const u32 cluster = tier ? tier->cluster() : 1;
  const bool mixes = program.waits || options.schedule == Schedule::random || options.schedule == Schedule::interleave;
  u64 resident = !mixes ? 1 : options.resident == 0 ? total : std::min<u64>(options.resident, total);
  resident = std::max<u64>(resident / cluster, 1) * cluster;
  // The order of the clusters, threadgroups of one side by side.
  order_.resize(total / cluster);
  std::iota(order_.begin(), order_.end(), 0u);
  if (options.schedule == Schedule::reverse) std::reverse(order_.begin(), order_.end());
  if (options.schedule == Schedule::random) std::shuffle(order_.begin(), order_.end(), random_);
  if (cluster > 1) {
    std::vector<u32> groups;
    for (const u32 c : order_)
      for (u32 rank = 0; rank < cluster; ++rank) groups.push_back(c * cluster + rank);
    order_ = std::move(groups);
  }
  for (u64 i = 0; i < std::min(resident, total); ++i) resident_.push_back(std::make_unique<Group>());

  std::vector<Simdgroup*> turn;
  while (!stop) {
    u64 progress = start_groups();
    turn.clear();
    for (auto& g : resident_)
      if (g->started)
        for (auto& s : g->simdgroups) turn.push_back(&s);
    if (turn.empty()) break;
    if (options.schedule == Schedule::reverse) std::reverse(turn.begin(), turn.end());
    if (options.schedule == Schedule::random) std::shuffle(turn.begin(), turn.end(), random_);
    for (Simdgroup* s : turn) {
      if (s->status == Status::collective) {
        tier->meet(*s, progress);
        if (stop) break;
        continue;
      }
      if (s->status == Status::done || s->status == Status::rendezvous || !s->group->started) continue;
      u64 budget = ~u64{0};
      if (options.schedule == Schedule::interleave) budget = 1;
      if (options.schedule == Schedule::random) budget = 1 + random_() % 8;
      s->status = Status::next;
      advance(*s, budget, progress);
      if (stop) break;
      if (s->status == Status::rendezvous || s->status == Status::done) meet(*s->group, progress);
      if (options.accepts && !s->group->started) show_written();
    }
    if (tier && !stop) tier->land(progress == 0, progress);
    if (progress == 0 && !stop) deadlock();
  }
  return std::move(result);
}

Result run(const Kernel& kernel, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
           const Options& options) {
  bool transcendental = false;
  kernel.walk([&](OpId id) { transcendental |= kernel.info_of(id).has(Math | Fast); });
  if (!transcendental) return Machine(kernel, geometry, args, options).run();
  Kernel expanded = kernel;  // their meaning is their expansion (R1)
  passes::expand_fast(expanded);
  passes::expand_math(expanded);
  return Machine(expanded, geometry, args, options).run();
}

}  // namespace iron::exec
