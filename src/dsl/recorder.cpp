// The recorder: turns calls of the kernel language into IR, and refuses what C++ itself could not refuse.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "core/hash.h"
#include "ir/builder.h"
#include "ir/promote.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "iron/dsl/kernel.h"

namespace iron::detail {

using ir::OpId;
using ir::RegionId;

namespace {

/// An open loop, branch or guard. A guard is the rest of a region after a break_if or exit_if; it closes with its
/// parent.
struct Construct {
  enum Kind { loop, branch, guard, roles } kind = loop;
  OpId op = ir::none;
  RegionId outer = 0;
  int visit = 0;
  Id user_until = no_id;  ///< slot given by until()
  Id broken = no_id;      ///< slot raised by break_if
  std::set<Id> raised;    ///< flags that may have become true inside
};

}  // namespace

struct Recording::State {
  State(std::string name, bool probing) : build(kernel), probe(probing) { kernel.name = std::move(name); }

  ir::Kernel kernel;
  ir::Builder build;
  bool probe;
  std::vector<Construct> open;
  std::vector<u32> epoch_of;  ///< when each op was recorded, in effects
  u32 epoch = 0;
  Id exited = no_id;
  std::set<Id> raised_at_root;
  std::vector<std::string> roles;  ///< their names, once there are roles
  u32 role = no_id;                ///< the one that is being recorded
  State* outer = nullptr;          ///< the caller's recording, for a callee

  static thread_local State* current;
  static State& get(Loc loc) {
    if (!current)
      refuse("D17", "a device operation outside a recording", loc, "kernels run through record(), launch() or a test");
    return *current;
  }

  ir::LocId location(Loc loc) { return kernel.intern_location(relative(loc.file), loc.line); }
  static std::string relative(std::string_view file) {
#ifdef IRON_SOURCE_DIR
    constexpr std::string_view root = IRON_SOURCE_DIR "/";
    if (file.substr(0, root.size()) == root) file.remove_prefix(root.size());
#endif
    // Compilers started from a build folder may name files from there.
    while (file.substr(0, 2) == "./" || file.substr(0, 3) == "../") file.remove_prefix(file[1] == '.' ? 3 : 2);
    return std::string(file);
  }

  void stamp(OpId id) {
    epoch_of.resize(kernel.op_capacity(), epoch);
    epoch_of[id] = epoch;
  }

  OpId use(Arg a, Loc loc) {
    if (a.id == no_id || a.id >= kernel.op_capacity())
      refuse("D17", "an operand that this recording does not know", loc,
             "use values only in the kernel that recorded them");
    if (!kernel.alive(a.id) || !kernel.encloses(kernel.op(a.id).region, build.region()))
      refuse("DSL01", "a value is used outside the loop or branch that computed it", loc,
             "carry it out in a Var declared before the loop or branch");
    if (a.unnamed && epoch_of[a.id] != epoch)
      refuse("DSL02", "an effect was recorded between this operand and its use, and C++ does not fix their order", loc,
             "name this value first: const auto v = ...;");
    return a.id;
  }

  OpId record(Opcode code, Loc loc, std::span<const OpId> operands, u64 imm, ir::Type stated) {
    build.set_location(location(loc));
    OpId id = no_id;
    try {
      id = build.op(code, stated, operands, imm);
    } catch (const Error& e) {
      auto d = e.diagnostics().front();
      if (code == Opcode::Store) d.code = "D29";
      d.kernel = kernel.name;
      throw Error(std::move(d));
    }
    if (ir::pinned(kernel, id) && ir::info(code).has(~static_cast<u32>(ir::Reads | ir::ReadsSlot)))
      ++epoch;  // reads commute
    // Fragments keep the order in which they are made. What an operator makes of a scalar or of rows follows its
    // operands.
    if (ir::fragment_op(kernel, id) && code != Opcode::FragSplat && code != Opcode::FragSpread) ++epoch;
    stamp(id);
    return id;
  }

  // --- regions
  void enter(RegionId r) { build.set_point(r), ++epoch; }

  OpId not_any(const std::set<Id>& flags, Loc loc) {
    OpId all_clear = no_id;
    for (const Id slot : flags) {
      const OpId up = record(Opcode::SlotLoad, loc, std::array{slot}, 0, ir::bool_type);
      const OpId clear = record(Opcode::Not, loc, std::array{up}, 0, {});
      all_clear = all_clear == no_id ? clear : record(Opcode::And, loc, std::array{all_clear, clear}, 0, {});
    }
    return all_clear;
  }

  void open_guard(OpId condition, Loc loc) {
    build.set_location(location(loc));
    Construct c;
    c.kind = Construct::guard;
    c.outer = build.region();
    c.op = build.if_(condition, {});
    open.push_back(c);
    stamp(c.op);
    enter(kernel.region_of(c.op, 0));
  }

  // Ends the current region with a yield, and the guards that live in it.
  void close_guards(std::size_t depth, Loc loc) {
    while (open.size() > depth) {
      const Construct c = open.back();
      if (c.kind != Construct::guard)
        refuse("DSL03", "a loop or branch inside this one is still open", loc,
               "do not leave recorded regions by break, return or goto");
      build.yield({});
      build.set_point(kernel.region_of(c.op, 1));
      build.yield({});
      open.pop_back();
      raise(c.raised);
      enter(c.outer);
      stamp(c.op);
    }
  }

  void raise(const std::set<Id>& flags) {
    auto& into = open.empty() ? raised_at_root : open.back().raised;
    into.insert(flags.begin(), flags.end());
  }

  // After a construct in which flags may have been raised, the rest of its parent region is guarded.
  void after(const std::set<Id>& flags, Loc loc) {
    if (flags.empty()) return;
    raise(flags);
    open_guard(not_any(flags, loc), loc);
  }

  void clear_region(RegionId r) {
    auto& ops = kernel.region(r).ops;
    while (!ops.empty()) kernel.erase(ops.back());
  }

  bool empty_region(RegionId r) const {
    const auto& ops = kernel.region(r).ops;
    return std::none_of(ops.begin(), ops.end(),
                        [&](OpId id) { return ir::pinned(kernel, id) && kernel.op(id).code != Opcode::Yield; });
  }
};

thread_local Recording::State* Recording::State::current = nullptr;

void refuse(std::string_view code, std::string message, Loc loc, std::string fix) {
  Diagnostic d;
  d.code = code, d.message = std::move(message), d.fix = std::move(fix);
  d.file = Recording::State::relative(loc.file), d.line = loc.line;
  if (Recording::State::current) d.kernel = Recording::State::current->kernel.name;
  throw Error(std::move(d));
}

Id emit(Opcode code, Loc loc, std::span<const Arg> operands, u64 imm, ir::Type stated) {
  auto& s = Recording::State::get(loc);
  std::vector<OpId> ids;
  ids.reserve(operands.size());
  for (const Arg a : operands) ids.push_back(s.use(a, loc));
  return s.record(code, loc, ids, imm, stated);
}

Id constant(DType type, u64 bits, Loc loc) {
  auto& s = Recording::State::get(loc);
  s.build.set_location(s.location(loc));
  const OpId id = s.build.constant(ir::Type::value(type), bits);
  s.stamp(id);
  return id;
}

Id constant_of(DType type, f64 value, Loc loc) {
  auto& s = Recording::State::get(loc);
  s.build.set_location(s.location(loc));
  const OpId id = s.build.const_float(type, value);
  s.stamp(id);
  return id;
}

Id constant_of(DType type, i64 value, bool is_unsigned, Loc loc) {
  const u32 bits = dtype_bits(type);
  bool fits = true;
  if (is_unsigned_int(type))
    fits = (bits == 64 && is_unsigned) || (value >= 0 && (bits == 64 || static_cast<u64>(value) < (1ull << bits)));
  else
    fits = !(is_unsigned && value < 0) &&
           (bits == 64 || (value >= -(i64{1} << (bits - 1)) && value < (i64{1} << (bits - 1))));
  if (!fits)
    refuse("D29",
           fmt::format("the constant {} does not fit {}",
                       is_unsigned ? fmt::format("{}", static_cast<u64>(value)) : fmt::format("{}", value),
                       dtype_name(type)),
           loc, "write a value in range, or cast");
  const u64 mask = bits == 64 ? ~0ull : (1ull << bits) - 1;
  return constant(type, static_cast<u64>(value) & mask, loc);
}

u64 text_imm(std::string_view text) { return Recording::State::get({}).kernel.intern_text(text); }

Id slot_new(ir::Type type, Loc loc) { return Recording::State::get(loc).record(Opcode::SlotNew, loc, {}, 0, type); }
Id slot_load(Id slot, Loc loc) {
  auto& s = Recording::State::get(loc);
  const OpId id = s.use({slot}, loc);
  return s.record(Opcode::SlotLoad, loc, std::array{id}, 0, s.kernel.type(id));
}
void slot_store(Id slot, Arg value, Loc loc) {
  auto& s = Recording::State::get(loc);
  const OpId operands[] = {s.use({slot}, loc), s.use(value, loc)};
  s.record(Opcode::SlotStore, loc, operands, 0, {});
}

LoopToken loop_open(Arg start, Arg end, Arg step, Id until_slot, Loc loc) {
  auto& s = Recording::State::get(loc);
  const OpId bounds[] = {s.use(start, loc), s.use(end, loc), s.use(step, loc)};
  i64 constant_step = 0;
  if (ir::const_index(s.kernel, bounds[2], constant_step) && constant_step < 1)
    refuse("D02", fmt::format("a loop steps by {}", constant_step), loc,
           "steps are at least 1; count upwards and compute the falling value");
  s.build.set_location(s.location(loc));
  Construct c;
  c.kind = Construct::loop;
  c.outer = s.build.region();
  c.op = s.build.for_(bounds[0], bounds[1], bounds[2], {});
  c.user_until = until_slot;
  if (until_slot != no_id) {
    const OpId with_until[] = {bounds[0], bounds[1], bounds[2], until_slot};
    s.kernel.set_operands(c.op, with_until);
  }
  s.open.push_back(c);
  const RegionId body = s.kernel.region_of(c.op, 0);
  s.enter(body);
  const OpId induction = s.kernel.region(body).args[0];
  s.stamp(induction);
  return {static_cast<u32>(s.open.size()), induction};
}

bool loop_close(LoopToken& token, Loc loc) {
  auto& s = Recording::State::get(loc);
  if (s.open.size() < token.depth) refuse("DSL03", "this loop was closed from inside", loc);
  s.close_guards(token.depth, loc);
  Construct& c = s.open.back();
  const RegionId body = s.kernel.region_of(c.op, 0);
  if (s.probe && c.visit++ == 0) {
    s.clear_region(body);
    c.raised.clear();
    s.enter(body);
    return true;
  }
  if (c.broken != no_id && c.user_until != no_id) {  // one flag at the head stands for both
    const OpId done = s.record(Opcode::SlotLoad, loc, std::array{c.user_until}, 0, ir::bool_type);
    const OpId broken = s.record(Opcode::SlotLoad, loc, std::array{c.broken}, 0, ir::bool_type);
    const OpId leave = s.record(Opcode::Or, loc, std::array{done, broken}, 0, {});
    const OpId store[] = {c.broken, leave};
    s.record(Opcode::SlotStore, loc, store, 0, {});
  }
  if (s.empty_region(body))
    refuse("D06", "a loop whose body does nothing", loc, "store what it computes, or remove it");
  s.build.yield({});
  const Construct closed = c;
  s.open.pop_back();
  s.enter(closed.outer);
  auto flags = closed.raised;
  flags.erase(closed.broken);
  s.after(flags, loc);
  return false;
}

BranchToken branch_open(Arg condition, Loc loc) {
  auto& s = Recording::State::get(loc);
  const OpId id = s.use(condition, loc);
  s.build.set_location(s.location(loc));
  Construct c;
  c.kind = Construct::branch;
  c.outer = s.build.region();
  c.op = s.build.if_(id, {});
  s.open.push_back(c);
  s.enter(s.kernel.region_of(c.op, 0));
  return {static_cast<u32>(s.open.size()), 0};
}

bool branch_in_then(const BranchToken& token) { return token.visit == 0; }

bool branch_next(BranchToken& token) {
  auto& s = Recording::State::get({});
  const Loc loc{};
  if (s.open.size() < token.depth) refuse("DSL03", "this branch was closed from inside", loc);
  s.close_guards(token.depth, loc);
  Construct& c = s.open.back();
  const RegionId arm = s.kernel.region_of(c.op, static_cast<u32>(token.visit));
  if (s.probe && c.visit++ == 0) {
    s.clear_region(arm);
    s.enter(arm);
    return true;
  }
  s.build.yield({});
  if (token.visit == 0) {
    token.visit = 1, c.visit = 0;
    s.enter(s.kernel.region_of(c.op, 1));
    return true;
  }
  const Construct closed = c;
  s.open.pop_back();
  s.enter(closed.outer);
  if (s.empty_region(s.kernel.region_of(closed.op, 0)) && s.empty_region(s.kernel.region_of(closed.op, 1))) {
    s.kernel.erase(closed.op);
    s.build.set_point(closed.outer);
  }
  s.after(closed.raised, loc);
  return false;
}

RolesToken roles_open(std::span<const std::string> names, std::string_view text, Loc loc) {
  auto& s = Recording::State::get(loc);
  if (!s.roles.empty())
    refuse("TIER01", "a kernel with two lists of roles, or roles inside a role", loc,
           "name all roles in one list: warpgroups keep their role for the whole kernel");
  s.roles.assign(names.begin(), names.end());
  s.build.set_location(s.location(loc));
  Construct c;
  c.kind = Construct::roles;
  c.outer = s.build.region();
  c.op = s.kernel.create(Opcode::Roles, ir::none_type, {}, s.kernel.intern_text(text), s.build.location(),
                         static_cast<u32>(names.size()));
  s.kernel.append(c.outer, c.op);
  s.stamp(c.op);
  s.open.push_back(c);
  s.role = 0;
  s.enter(s.kernel.region_of(c.op, 0));
  return {static_cast<u32>(s.open.size()), 0};
}

bool roles_next(RolesToken& token) {
  auto& s = Recording::State::get({});
  const Loc loc{};
  if (s.open.size() < token.depth) refuse("DSL03", "this role was closed from inside", loc);
  s.close_guards(token.depth, loc);
  Construct& c = s.open.back();
  const RegionId body = s.kernel.region_of(c.op, token.role);
  if (s.probe && c.visit++ == 0) {
    s.clear_region(body);
    s.enter(body);
    return true;
  }
  s.build.yield({});
  c.visit = 0;
  if (++token.role < s.roles.size()) {
    s.role = token.role;
    s.enter(s.kernel.region_of(c.op, token.role));
    return true;
  }
  const Construct closed = c;
  s.open.pop_back();
  s.role = no_id;
  s.enter(closed.outer);
  return false;
}

std::string_view current_role(Loc loc) {
  const auto& s = Recording::State::get(loc);
  return s.role == no_id ? std::string_view{} : s.roles[s.role];
}

void add_to_immediate(Id op, u64 amount) { Recording::State::get({}).kernel.mutable_op(op).imm += amount; }

void left_early(u32 depth, std::string_view what, Loc loc) {
  if (!Recording::State::current || Recording::State::current->open.size() < depth) return;
  refuse("D28", fmt::format("a host break, return or goto leaves this recorded {} early", what), loc,
         "use break_if(...) or exit_if(...): host control flow does not exist on the device");
}

void break_if(Arg condition, Loc loc) {
  auto& s = Recording::State::get(loc);
  const OpId c = s.use(condition, loc);
  const auto loop =
      std::find_if(s.open.rbegin(), s.open.rend(), [](const Construct& o) { return o.kind == Construct::loop; });
  if (loop == s.open.rend()) refuse("D17", "break_if outside a loop", loc, "use exit_if(...) to end the thread");
  const auto raise_loop = [&](Construct& l) {
    if (l.broken == no_id) {  // declared before the loop, in the region that holds it
      const auto region = s.build.region();
      s.build.set_point_before(l.op);
      s.build.set_location(s.location(loc));
      l.broken = s.build.op(Opcode::SlotNew, ir::bool_type, {});
      const OpId init = s.build.const_bool(false);
      s.build.op(Opcode::SlotStore, {l.broken, init});
      s.stamp(l.broken);
      s.build.set_point(region);
      const auto o = s.kernel.operands(l.op);
      const OpId with_until[] = {o[0], o[1], o[2], l.broken};
      s.kernel.set_operands(l.op, with_until);
    }
    const OpId store[] = {l.broken, c};
    s.record(Opcode::SlotStore, loc, store, 0, {});
    s.raise({l.broken});
  };
  raise_loop(*loop);
  s.open_guard(s.record(Opcode::Not, loc, std::array{c}, 0, {}), loc);
}

void exit_if(Arg condition, Loc loc) {
  auto& s = Recording::State::get(loc);
  const OpId c = s.use(condition, loc);
  if (s.exited == no_id) {
    const auto region = s.build.region();
    const auto& body = s.kernel.region(s.kernel.body()).ops;
    std::size_t at = 0;
    while (at < body.size() && s.kernel.op(body[at]).code == Opcode::Param) ++at;
    s.build.set_point(s.kernel.body(), at);
    s.build.set_location(s.location(loc));
    s.exited = s.build.op(Opcode::SlotNew, ir::bool_type, {});
    const OpId init = s.build.const_bool(false);
    s.build.op(Opcode::SlotStore, {s.exited, init});
    s.stamp(s.exited);
    s.build.set_point(region);
  }
  std::set<Id> flags{s.exited};
  for (std::size_t i = 0; i < s.open.size(); ++i) {  // every open loop ends at its head
    Construct& l = s.open[i];
    if (l.kind != Construct::loop) continue;
    const auto o = s.kernel.operands(l.op);
    if (o.size() == 3) {
      const OpId with_until[] = {o[0], o[1], o[2], s.exited};
      s.kernel.set_operands(l.op, with_until);
      l.user_until = s.exited;
    } else if (o[3] != s.exited) {
      refuse("DSL04", "exit_if inside a loop that has its own until() or break_if()", loc,
             "raise that loop's condition instead, and test it after the loop");
    }
  }
  const OpId store[] = {s.exited, c};
  s.record(Opcode::SlotStore, loc, store, 0, {});
  s.raise(flags);
  s.open_guard(s.record(Opcode::Not, loc, std::array{c}, 0, {}), loc);
}

Recording::Recording(std::string name, Mode mode, Numerics numerics, bool width_generic, std::string spec, bool probe,
                     bool callee)
    : state_(std::make_unique<State>(std::move(name), probe)) {
  if (State::current && !callee)
    refuse("D17", "a recording inside another one", {}, "use call(...) to use a kernel in a kernel");
  state_->outer = State::current;
  state_->kernel.mode = static_cast<ir::Mode>(mode);
  state_->kernel.numerics = static_cast<ir::Numerics>(numerics);
  state_->kernel.width_generic = width_generic;
  state_->kernel.spec = std::move(spec);
  State::current = state_.get();
}

Recording::~Recording() {
  if (State::current == state_.get()) State::current = state_->outer;
}

Id Recording::param(std::string_view name, ir::Type type, Access access, bool scalar, bool tensor) {
  static constexpr ir::ParamKind kinds[] = {ir::ParamKind::in, ir::ParamKind::out, ir::ParamKind::inout};
  const Id id = state_->kernel.add_param(
      std::string(name), scalar ? ir::ParamKind::scalar : kinds[static_cast<int>(access)], type.elem, 0, tensor);
  state_->build.set_point(state_->kernel.body());
  state_->stamp(id);
  return id;
}

void Recording::guard_items() {
  auto& s = *state_;
  const Loc loc{};
  const OpId id = s.record(Opcode::GridThreadId, loc, {}, 0, {});
  const OpId items = s.record(Opcode::ItemCount, loc, {}, 0, {});
  s.open_guard(s.record(Opcode::Lt, loc, std::array{id, items}, 0, {}), loc);
}

std::shared_ptr<ir::Kernel> Recording::finish() {
  auto& s = *state_;
  s.close_guards(0, {});
  State::current = s.outer;
  ir::promote_slots(s.kernel);
  auto kernel = std::make_shared<ir::Kernel>(ir::canonical(s.kernel));
  kernel->walk([&](OpId id) {
    const auto& l = kernel->location(id);
    if (kernel->file.empty() && l.line) kernel->file = l.file;
  });
  auto problems = ir::verify_structure(*kernel, "recording");
  if (!problems.empty()) throw Error(std::move(problems));
  return kernel;
}

bool probing(Loc loc) {
  constexpr u32 deepest = 64;
  auto& s = Recording::State::get(loc);
  u32 depth = 0;
  for (const auto* o = &s; o; o = o->outer) ++depth;
  if (depth > deepest)
    refuse("IR0301",
           fmt::format("calls nest deeper than {}: kernel {} is recorded inside itself", deepest, s.kernel.name), loc,
           "kernels are inlined where they are called; write a loop instead");
  return s.probe;
}

void record_call(const std::shared_ptr<ir::Kernel>& callee, std::span<const Arg> arguments, Loc loc) {
  auto& s = Recording::State::get(loc);
  if (callee->mode != s.kernel.mode)
    refuse("D01",
           fmt::format("{} is a kernel of mode {}, the caller is {}", callee->name, name(callee->mode),
                       name(s.kernel.mode)),
           loc, "call kernels of the caller's own mode");
  callee->name += "_" + hash128(ir::identity(*callee)).hex().substr(0, 16);
  emit(Opcode::Call, loc, arguments, s.kernel.intern_text(callee->name));
  s.kernel.callees[callee->name] = callee;
}

}  // namespace iron::detail
