// Roles, pipelines and copies of the Hopper tier. Products and fragments: tier_products.cpp.
#include "emit/cuda/tier.h"

#include <fmt/format.h>

#include <algorithm>

#include "emit/cuda/rows.h"

namespace iron::emit::cuda {

using ir::Opcode;
using ir::OpId;

namespace {
constexpr u32 named_barriers = 16;

// The region where an accumulator's registers are declared: as deep as all uses allow, so that nothing is kept alive
// between two trips of an outer loop. Only where the first product of each trip does not accumulate.
ir::RegionId home_of(const ir::Kernel& k, OpId acc, const std::vector<OpId>& uses) {
  ir::RegionId home = k.op(uses[0]).region;
  for (const OpId use : uses)
    while (!k.encloses(home, k.op(use).region)) home = k.op(k.region(home).parent).region;
  const OpId first = uses[0];
  const auto overwrites = [&] {
    switch (k.op(first).code) {
      case Opcode::AccClear:
      case Opcode::AccSet:
        return true;
      case Opcode::AccMma: {
        const OpId accumulate = k.operand(first, 3);
        if (ir::is_const(k, accumulate)) return k.op(accumulate).imm == 0;
        // `i != 0`, i the turn of a loop inside the home that starts at 0.
        if (k.op(accumulate).code != Opcode::Ne) return false;
        i64 zero = 1, start = 1;
        const OpId turn = k.operand(accumulate, 0);
        if (!ir::const_index(k, k.operand(accumulate, 1), zero) || zero != 0 || k.op(turn).code != Opcode::Arg ||
            k.op(turn).imm != 0)
          return false;
        const OpId loop = k.region(k.op(turn).region).parent;
        return k.op(loop).code == Opcode::For && ir::const_index(k, k.operand(loop, 0), start) && start == 0 &&
               k.encloses(home, k.op(loop).region) && k.encloses(k.op(turn).region, k.op(first).region);
      }
      default:
        return false;
    }
  };
  return overwrites() ? home : k.op(acc).region;
}
}  // namespace

Tier::Tier(const Emitter& e) : k(e.kernel()), flow(analysis::tier_flow(k)), roles_op(ir::find_roles(k)) {
  if (!flow.problems.empty()) throw Error(flow.problems);
  if (roles_op != ir::none) roles = ir::roles_of(k, roles_op);
  for (const auto& r : roles) warpgroups += r.warpgroups;
  cluster = ir::cluster_size(k);
  u32 next = 1 + warpgroups + static_cast<u32>(roles.size());  // 0: everybody; then a warpgroup each, then a role each
  std::map<OpId, std::vector<OpId>> uses;
  k.walk([&](OpId id) {
    const auto code = k.op(id).code;
    if (code == Opcode::AccMma || code == Opcode::AccValue || code == Opcode::AccSet || code == Opcode::AccScale ||
        code == Opcode::AccClear)
      uses[k.operand(id, 0)].push_back(id);
    if (code == Opcode::PeerLoad || (code == Opcode::TmaLoad && ir::unpack<ir::CopyImm>(k.op(id).imm).multicast))
      peers = cluster > 1;
    if (code == Opcode::TurnNew) {
      turns[id] = next;
      u32 taken = 1;
      for (const OpId use : e.users(id))
        if (const auto r = ir::role_region(k, use); r != ir::none)
          taken = roles[r - k.region_of(roles_op, 0)].warpgroups;
      next += taken;
    }
  });
  if (next > named_barriers)
    throw Error("EMIT02",
                fmt::format("kernel {} needs {} named barriers, a threadgroup has {}", k.name, next, named_barriers),
                "use fewer warpgroups, roles or turns");
  for (const auto& [acc, list] : uses) declared[home_of(k, acc, list)].push_back(acc);
}

namespace {
Tier& tier(Emitter& e) { return e.extension<Tier>(); }

std::string thread_of_warpgroup() { return "threadIdx.x % 128u"; }

// Pipelines: who uses them, and how.
PipeText& pipe(Emitter& e, OpId id) {
  Tier& t = tier(e);
  const OpId made = e.kernel().op(id).code == Opcode::PipeNew ? id : e.kernel().operand(id, 0);
  return t.pipes.at(made);
}
std::string barrier_of(const std::string& first, const std::string& slot) {
  return slot.empty() ? first : fmt::format("{} + 8u * {}", first, slot);
}
std::string as_u32(const Expr& e) { return c_cast("u32", e).text; }

void advance(Emitter& e, const PipeText& p, const std::string& slot, const std::string& phase) {
  if (p.stages == 1) {
    if (!phase.empty()) e.line(fmt::format("{} ^= 1u;", phase));
    return;
  }
  if (phase.empty())
    e.line(fmt::format("if (++{0} == {1}u) {0} = 0u;", slot, p.stages));
  else
    e.line(fmt::format("if (++{0} == {1}u) {0} = 0u, {2} ^= 1u;", slot, p.stages, phase));
}

// Declares the cursors of the pipelines that a role uses.
void cursors(Emitter& e, ir::RegionId r) {
  Tier& t = tier(e);
  std::set<OpId> loads, uses;
  t.stores = false;
  t.k.walk(r, [&](OpId id) {
    if (t.k.op(id).code == Opcode::PipeAcquire) loads.insert(t.k.operand(id, 0));
    if (t.k.op(id).code == Opcode::PipeWait) uses.insert(t.k.operand(id, 0));
    t.stores |= t.k.op(id).code == Opcode::TmaStore;
  });
  for (auto& [id, p] : t.pipes) {
    if (!loads.count(id) && !uses.count(id)) continue;
    p.slot.clear(), p.tail.clear(), p.held.clear();
    p.phase = e.fresh("phase");
    std::string text = fmt::format("u32 {} = {}u", p.phase, loads.count(id) ? 1 : 0);
    if (p.stages > 1) text += fmt::format(", {} = 0u", p.slot = e.fresh("at_slot"));
    if (uses.count(id) && p.counted) {
      if (p.stages > 1) text += fmt::format(", {} = 0u", p.tail = e.fresh("tail"));
      text += fmt::format(", {} = 0u", p.held = e.fresh("held"));
    }
    e.line(text + ";");
  }
}

void before_roles(Emitter& e) {
  Tier& t = tier(e);
  if (t.warpgroups * 128 != e.threads())
    throw Error("D02",
                fmt::format("kernel {} has {} warpgroups in its roles, the threadgroup has {} threads", t.k.name,
                            t.warpgroups, e.threads()),
                fmt::format("launch {} threads a threadgroup", t.warpgroups * 128));
  if (!t.pipes.empty()) {
    e.open("if (threadIdx.x == 0u) {");
    for (const auto& box : ir::tensor_boxes(t.k))
      e.line(e.call("prefetch_map", {raw("&" + e.param_name(box.param))}).text + ";");
    for (const auto& [id, p] : t.pipes)
      for (u32 s = 0; s < p.stages; ++s) {
        e.line(e.call("barrier_init", {raw(fmt::format("{} + {}u", p.full, 8 * s)), raw("1u")}).text + ";");
        e.line(
            e.call("barrier_init", {raw(fmt::format("{} + {}u", p.empty, 8 * s)), raw(fmt::format("{}u", p.arrivals))})
                .text +
            ";");
      }
    e.line(e.call("barriers_ready", {}).text + ";");
    e.close();
  }
  e.line(t.peers ? e.call("cluster_barrier", {}).text + ";" : e.dialect().barrier());
  e.line("const u32 warpgroup = __shfl_sync(0xffffffffu, threadIdx.x / 128u, 0);");
}

void role_body(Emitter& e, u32 number) {
  Tier& t = tier(e);
  const auto& r = t.roles[number];
  const u32 at_entry = 65536 / e.threads() / 8 * 8;
  if (r.registers && r.registers != at_entry)
    e.line(fmt::format("asm volatile(\"setmaxnreg.{}.sync.aligned.u32 {};\");", r.registers < at_entry ? "dec" : "inc",
                       r.registers));
  const ir::RegionId body = t.k.region_of(t.roles_op, number);
  if (r.one_thread)
    e.open(fmt::format("if (threadIdx.x / 32u == {}u && {}) {{", t.first_warpgroup * 4, e.call("elect_one", {}).text));
  cursors(e, body);
  if (!r.one_thread)
    for (const auto& [id, barrier] : t.turns) {
      const bool here = std::any_of(e.users(id).begin(), e.users(id).end(),
                                    [&](OpId use) { return ir::role_region(t.k, use) == body; });
      if (here && r.warpgroups > 1)
        e.line(fmt::format("if (warpgroup == {}u) {};  // the first warpgroup begins",
                           t.first_warpgroup + r.warpgroups - 1,
                           e.call("named_arrive", {raw(fmt::format("{}u", barrier)), raw("256u")}).text));
    }
  e.region(body);
  if (r.one_thread) {
    e.close();
    e.line("__syncwarp();");
  } else if (t.stores) {
    e.line(fmt::format("if ({} == 0u) {};", thread_of_warpgroup(), e.call("stores_have_read", {}).text));
  }
}
}  // namespace

void roles(Emitter& e, OpId) {
  Tier& t = tier(e);
  before_roles(e);
  e.keep_loops(true);
  t.first_warpgroup = 0;
  for (u32 n = 0; n < t.roles.size(); ++n) {
    t.role = n, t.role_barrier = 1 + t.warpgroups + n;
    const u32 end = t.first_warpgroup + t.roles[n].warpgroups;
    const std::string head = n + 1 == t.roles.size() ? std::string("{") : fmt::format("if (warpgroup < {}u) {{", end);
    if (n > 0)
      e.close(fmt::format("}} else {}  // {}", head, t.roles[n].name)), e.reopen();
    else
      e.open(fmt::format("{}  // {}", head, t.roles[n].name));
    role_body(e, n);
    t.first_warpgroup = end;
  }
  e.close();
  e.keep_loops(false);
}

void leave_kernel(Emitter& e) {
  if (!ir::uses_tier(e.kernel()) || !tier(e).peers) return;
  bool reads = false;
  e.kernel().walk([&](OpId id) { reads |= e.kernel().op(id).code == ir::Opcode::PeerLoad; });
  e.line(e.call(reads ? "leave_read_cluster" : "leave_cluster", {}).text + ";");
}

void role_index(Emitter& e, OpId id) {
  const u32 first = tier(e).first_warpgroup;
  e.define(id, "number",
           {c_cast(e.type_name(DType::index),
                   first ? Expr{fmt::format("warpgroup - {}u", first), Prec::sum, false} : raw("warpgroup"))});
}
void role_barrier(Emitter& e, OpId id) {
  const Tier& t = tier(e);
  e.line(id, e.call("named_barrier", {raw(fmt::format("{}u", t.role_barrier)),
                                      raw(fmt::format("{}u", t.roles[t.role].warpgroups * 128))})
                     .text +
                 ";");
}
void cluster_rank(Emitter& e, OpId id) {
  e.define(id, "rank", {c_cast(e.type_name(DType::index), e.call("cluster_rank", {}))});
}
void cluster_sync(Emitter& e, OpId id) { e.line(id, e.call("cluster_barrier", {}).text + ";"); }

void peer_load(Emitter& e, OpId id) {
  const auto t = e.kernel().type(id);
  const OpId mem = e.kernel().operand(id, 0);
  if (e.kernel().type(mem).swizzle != ir::Swizzle::none || e.kernel().op(mem).code != Opcode::SharedNew)
    e.refuse(id, "a peer's memory is read without swizzle", "declare the array without a swizzle");
  const std::string base = e.address(e.value(mem).text);
  const Expr at = binary(
      raw(base), "+",
      binary(c_cast("u32", e.arg(id, 1)), "*", raw(fmt::format("{}u", dtype_size(t.elem))), Prec::product), Prec::sum);
  const Expr there = e.call("peer_address", {at, c_cast("u32", e.arg(id, 2))});
  const Expr bits = e.call(fmt::format("peer_load_{}", dtype_size(t.elem)), {there});
  e.define(id, "theirs", {rows::from_bits(e, bits, t.elem)});
}

// --- views -----------------------------------------------------------------------------------------------------------

void shared_view(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const OpId mem = k.operand(id, 0);
  const auto array = k.type(mem), view = k.type(id);
  if (k.op(mem).code != Opcode::SharedNew) e.refuse(id, "views are of arrays, not of aliases");
  const u32 panel = ir::panel_cols(array);
  const u64 pitch = u64{panel} * dtype_size(array.elem);
  i64 col = 0, constant = 0;
  if (!ir::const_index(k, k.operand(id, 3), col) || col % panel != 0)
    e.refuse(id, "a view starts at a column that is no multiple of the swizzle's width", "use whole panels");
  if (view.cols > panel && view.cols % panel != 0)
    e.refuse(id, "a view ends inside a panel", "use whole panels, or less than one");
  const auto& users = e.users(id);  // reclaim names a view without touching it
  if (std::all_of(users.begin(), users.end(), [&](OpId use) { return k.op(use).code == Opcode::Reclaim; }))
    return e.set(id, {raw("")});
  std::string text = e.address(e.value(mem).text);
  const auto add = [&](u32 operand, u64 bytes) {
    if (ir::const_index(k, k.operand(id, operand), constant)) {
      if (constant) text += fmt::format(" + {}u", static_cast<u64>(constant) * bytes);
    } else {
      text += fmt::format(" + {} * {}u", as_u32(e.arg(id, operand)), bytes);
    }
  };
  if (k.op(mem).imm > u64{array.rows} * array.cols) add(1, ir::slot_bytes(array));
  add(2, pitch);
  if (col) text += fmt::format(" + {}u", static_cast<u64>(col) / panel * ir::panel_bytes(array));
  e.set(id, {e.name(id, "u32", "view", {text, Prec::sum, false})});
}

// --- pipelines -------------------------------------------------------------------------------------------------------

void pipe_new(Emitter& e, OpId id) {
  Tier& t = tier(e);
  const auto& k = e.kernel();
  PipeText p;
  p.stages = static_cast<u32>(k.op(id).imm);
  p.full = e.address(e.shared(id, "full", DType::u64, p.stages, 8));
  p.empty = e.address(e.shared(id, "empty", DType::u64, p.stages, 8));
  p.counted = t.flow.counted.count(id) != 0;
  u32 users = 0;
  std::set<OpId> filled;
  for (const OpId use : e.users(id)) {
    const auto code = k.op(use).code;
    if (code == Opcode::PipeWait) users = t.roles[ir::role_region(k, use) - k.region_of(t.roles_op, 0)].warpgroups;
    if (code == Opcode::TmaLoad) {
      p.multicast |= ir::unpack<ir::CopyImm>(k.op(use).imm).multicast;
      filled.insert(k.operand(k.operand(use, 1), 0));
    }
  }
  k.walk([&](OpId v) {
    const auto code = k.op(v).code;
    if ((code == Opcode::Load || code == Opcode::LoadOr) && filled.count(ir::memory_root(k, k.operand(v, 0))))
      p.generic_reads = true;
  });
  p.arrivals = users * (p.multicast ? t.cluster : 1);
  t.pipes.emplace(id, std::move(p));
  e.set(id, {raw("")});
}

void pipe_acquire(Emitter& e, OpId id) {
  const PipeText& p = pipe(e, id);
  const auto index = e.type_name(DType::index);
  const Expr slot = p.slot.empty() ? e.index_literal(0) : e.name(id, index, "slot", c_cast(index, raw(p.slot)));
  e.line(id, e.call("wait_barrier", {raw(barrier_of(p.empty, p.slot)), raw(p.phase)}).text + ";");
  advance(e, p, p.slot, p.phase);
  e.set(id, {slot});
}

void pipe_expect(Emitter& e, OpId id) {
  const PipeText& p = pipe(e, id);
  e.line(id, e.call("expect_bytes", {raw(barrier_of(p.full, p.slot.empty() ? "" : as_u32(e.arg(id, 1)))),
                                     raw(fmt::format("{}u", e.kernel().op(id).imm))})
                     .text +
                 ";");
}

void pipe_wait(Emitter& e, OpId id) {
  const PipeText& p = pipe(e, id);
  const auto index = e.type_name(DType::index);
  const Expr slot = p.slot.empty() ? e.index_literal(0) : e.name(id, index, "slot", c_cast(index, raw(p.slot)));
  e.line(id, e.call("wait_barrier", {raw(barrier_of(p.full, p.slot)), raw(p.phase)}).text + ";");
  advance(e, p, p.slot, p.phase);
  if (!p.held.empty()) e.line(fmt::format("++{};", p.held));
  e.set(id, {slot});
}

namespace {
void give_back(Emitter& e, const PipeText& p, const std::string& slot) {
  const Tier& t = tier(e);
  const std::string barrier = barrier_of(p.empty, slot);
  if (p.multicast && t.cluster > 1)
    e.line(fmt::format("if ({0} < {1}u) {2};", thread_of_warpgroup(), t.cluster,
                       e.call("arrive_at_peer", {raw(barrier), raw(thread_of_warpgroup())}).text));
  else
    e.line(fmt::format("if ({} == 0u) {};", thread_of_warpgroup(), e.call("arrive", {raw(barrier)}).text));
}
void warpgroup_barrier(Emitter& e) { e.line(e.call("named_barrier", {raw("1u + warpgroup"), raw("128u")}).text + ";"); }
}  // namespace

void pipe_release(Emitter& e, OpId id) {
  const PipeText& p = pipe(e, id);
  const auto& plan = tier(e).flow.releases.at(id);
  if (plan.most == 0) return;
  if (p.generic_reads) {
    e.line(id, e.call("fence_proxies", {}).text + ";");
    warpgroup_barrier(e);
  }
  if (p.held.empty()) {
    for (const OpId wait : plan.waits) give_back(e, p, p.slot.empty() ? "" : as_u32(e.value(wait)));
    return;
  }
  for (u32 n = 0; n < plan.most; ++n) {
    const bool sure = n < plan.least;
    if (!sure) e.open(fmt::format("if ({} > {}u) {{", p.held, e.kernel().op(id).imm));
    give_back(e, p, p.tail);
    if (!p.tail.empty()) advance(e, p, p.tail, "");
    e.line(fmt::format("--{};", p.held));
    if (!sure) e.close();
  }
}

// --- copies
// ------------------------------------------------------------------------------------------------------------

namespace {
// cp.async.bulk.tensor of a rank, as a helper.
std::string copy_helper(Emitter& e, bool load, bool multicast, u32 rank) {
  const std::string name =
      fmt::format("{}_{}d{}", load ? "load_box" : "store_box", rank, multicast ? "_multicast" : "");
  return e.made(name, [&] {
    e.need("TensorMap");
    std::string params, at, inputs;
    const u32 first = 2;
    for (u32 i = 0; i < rank; ++i) {
      params += fmt::format(", i32 c{}", i);
      at += fmt::format("{}%{}", i ? ", " : "", first + i);
      inputs += fmt::format(", \"r\"(c{})", i);
    }
    if (!load)
      return fmt::format(
          "$fn void {0}(const TensorMap* map, u32 from{1}) {{\n"
          "  asm volatile(\"cp.async.bulk.tensor.{2}d.global.shared::cta.tile.bulk_group [%0, {{{3}}}], [%1];\"\n"
          "               : : \"l\"(map), \"r\"(from){4} : \"memory\");\n}}",
          name, params, rank, at, inputs);
    const u32 next = first + rank;
    return fmt::format(
        "$fn void {0}(u32 to, const TensorMap* map, u32 full{1}{2}, u64 policy) {{\n"
        "  asm volatile(\"cp.async.bulk.tensor.{3}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes{4}"
        ".L2::cache_hint \"\n               \"[%0], [%1, {{{5}}}], [%{6}]{7}, %{8};\"\n"
        "               : : \"r\"(to), \"l\"(map){9}, \"r\"(full){10}, \"l\"(policy) : \"memory\");\n}}",
        name, params, multicast ? ", u16 ranks" : "", rank, multicast ? ".multicast::cluster" : "", at, next,
        multicast ? fmt::format(", %{}", next + 1) : "", next + (multicast ? 2 : 1), inputs,
        multicast ? ", \"h\"(ranks)" : "");
  });
}

// Coordinates of one panel's box.
std::string coordinates(Emitter& e, OpId id, u32 leading, u32 first_col) {
  std::string text;
  for (u32 i = leading; i < e.kernel().op(id).operand_count; ++i) {
    Expr c = c_cast("i32", e.arg(id, i));
    if (i == leading && first_col) c = binary(c, "+", raw(fmt::format("{}", first_col)), Prec::sum);
    text += ", " + c.text;
  }
  return text;
}
// Each panel of a view is one box.
void each_box(Emitter& e, OpId view, const std::function<void(const std::string& at, u32 col)>& write) {
  const auto& k = e.kernel();
  const auto array = k.type(k.operand(view, 0)), t = k.type(view);
  const u32 panel = ir::panel_cols(array);
  for (u32 col = 0; col < t.cols; col += panel)
    write(col ? fmt::format("{} + {}u", e.value(view).text, col / panel * ir::panel_bytes(array)) : e.value(view).text,
          col);
}
}  // namespace

void tma_load(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const auto imm = ir::unpack<ir::CopyImm>(k.op(id).imm);
  const Tier& t = tier(e);
  const bool multicast = imm.multicast && t.cluster > 1;
  const PipeText& p = t.pipes.at(k.operand(id, 2));
  const std::string helper = copy_helper(e, true, multicast, k.op(id).operand_count - 4u);
  // L2 policies by their encodings: evict normally, first, last.
  const std::string_view policy = imm.cache == ir::CachePolicy::stream ? "0x12f0000000000000ull"
                                  : imm.cache == ir::CachePolicy::keep ? "0x14f0000000000000ull"
                                                                       : "0x1000000000000000ull";
  each_box(e, k.operand(id, 1), [&](const std::string& at, u32 col) {
    e.line(id, fmt::format("{}({}, &{}, {}{}{}, {});", helper, at,
                           e.param_name(static_cast<u32>(k.op(k.operand(id, 0)).imm)),
                           barrier_of(p.full, p.slot.empty() ? "" : as_u32(e.arg(id, 3))), coordinates(e, id, 4, col),
                           multicast ? fmt::format(", {}", (1u << t.cluster) - 1) : "", policy));
  });
}

void tma_store(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const std::string helper = copy_helper(e, false, false, k.op(id).operand_count - 2u);
  e.line(id, e.call("fence_proxies", {}).text + ";");
  warpgroup_barrier(e);
  e.open(fmt::format("if ({} == 0u) {{", thread_of_warpgroup()));
  each_box(e, k.operand(id, 1), [&](const std::string& at, u32 col) {
    e.line(fmt::format("{}(&{}, {}{});", helper, e.param_name(static_cast<u32>(k.op(k.operand(id, 0)).imm)), at,
                       coordinates(e, id, 2, col)));
  });
  e.line(e.call("commit_stores", {}).text + ";");
  e.close();
}

void reclaim(Emitter& e, OpId id) {
  e.line(id, fmt::format("if ({} == 0u) {};", thread_of_warpgroup(), e.call("stores_have_read", {}).text));
  warpgroup_barrier(e);
}

// --- turns
// -------------------------------------------------------------------------------------------------------------

void turn_new(Emitter& e, OpId id) { e.set(id, {raw("")}); }
void turn_enter(Emitter& e, OpId id) {
  const Tier& t = tier(e);
  if (t.roles[t.role].warpgroups == 1) return;
  const u32 first = t.turns.at(e.kernel().operand(id, 0));
  e.line(id,
         e.call("named_barrier", {raw(fmt::format("{}u + (warpgroup - {}u)", first, t.first_warpgroup)), raw("256u")})
                 .text +
             ";");
}
void turn_leave(Emitter& e, OpId id) {
  const Tier& t = tier(e);
  const u32 n = t.roles[t.role].warpgroups;
  if (n == 1) return;
  const u32 first = t.turns.at(e.kernel().operand(id, 0));
  e.line(id, e.call("named_arrive",
                    {raw(fmt::format("{}u + (warpgroup - {}u + 1u) % {}u", first, t.first_warpgroup, n)), raw("256u")})
                     .text +
                 ";");
}

}  // namespace iron::emit::cuda
