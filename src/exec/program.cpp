// Decoding: registers by liveness, structured control flow to jumps, ops to handlers.
#include "exec/program.h"

#include <fmt/format.h>

#include <bit>
#include <map>
#include <numeric>

#include "exec/tier.h"
#include "ir/eval.h"
#include "ir/text.h"

namespace iron::exec {

namespace {
using namespace ir;

u32 align64(u32 bytes) { return (bytes + 63u) & ~63u; }

bool varies_by_group(Opcode c) { return c == Opcode::GroupId || c == Opcode::GridThreadId || c == Opcode::GridPos; }
bool is_preset(Opcode c) {
  return c == Opcode::Const || c == Opcode::Param || (c >= Opcode::ThreadId && c <= Opcode::Length);
}

class Decoder {
 public:
  Decoder(const Kernel& k, u32 threads, const Options& o) : k_(k), options_(o), threads_(threads) {
    p_.kernel = &k;
    p_.width = o.width;
    p_.reg.assign(k.op_capacity(), none);
    mem_.assign(k.op_capacity(), none);
  }

  Program run() {
    if (has_tier_ops(k_)) p_.tier = std::make_shared<TierPlan>(plan_tier(k_, threads_, options_.width));
    find_memory();
    if (p_.tier) find_tier_objects();
    find_last_uses();
    k_.walk([&](OpId id) {
      if (is_preset(k_.op(id).code) && k_.type(id).is_value()) {
        p_.reg[id] = fresh(bytes_of(id));
        p_.presets.push_back({id, p_.reg[id]});
        if (varies_by_group(k_.op(id).code)) p_.group_presets.push_back(p_.presets.back());
      }
    });
    p_.preset_bytes = top_;
    region(k_.body());
    emit(none, control_handlers().end);
    if (p_.code.size() >= max_instructions)
      throw Error("EXEC81", fmt::format("kernel {} has {} instructions; the interpreter runs up to {}", k_.name,
                                        p_.code.size(), max_instructions));
    p_.register_bytes = top_;
    return std::move(p_);
  }

 private:
  // --- memory objects
  void find_memory() {
    p_.param_granule_log2.assign(k_.params.size(), 3);
    std::map<OpId, u32> shared_of;
    k_.walk([&](OpId id) {
      const auto& op = k_.op(id);
      Mem m;
      m.op = id, m.elem = op.type.elem, m.size = dtype_size(op.type.elem);
      switch (op.code) {
        case Opcode::Param:
          if (!op.type.is_memory()) return;
          m.space = Space::global, m.root = static_cast<u32>(op.imm);
          narrow(p_.param_granule_log2[m.root], m.size, 0);
          break;
        case Opcode::SharedNew:
          m.space = Space::shared, m.root = static_cast<u32>(p_.shared.size()), m.count = op.imm;
          p_.shared.push_back({op.imm * m.size, static_cast<u32>(std::countr_zero(m.size)), id, false});
          break;
        case Opcode::ArrayNew:
          m.space = Space::priv, m.root = static_cast<u32>(p_.arrays.size()), m.count = op.imm;
          p_.arrays.push_back({op.imm, m.size, p_.array_bytes, p_.array_elements});
          p_.array_bytes += align64(static_cast<u32>(op.imm) * m.size * p_.width);
          p_.array_elements += static_cast<u32>(op.imm);
          break;
        case Opcode::SharedAlias:
        case Opcode::View: {
          const Mem& outer = p_.mems[mem_[k_.operand(id, 0)]];
          m.space = outer.space, m.root = outer.root, m.offset = outer.offset + op.imm;
          if (m.space == Space::priv) throw Error("EXEC81", "a view of a thread's own array");
          if (m.space == Space::shared) {
            const u64 bytes = p_.shared[m.root].bytes;
            m.count = m.offset < bytes ? (bytes - m.offset) / m.size : 0;
            narrow(p_.shared[m.root].granule_log2, m.size, m.offset);
          } else {
            narrow(p_.param_granule_log2[m.root], m.size, m.offset);
          }
          break;
        }
        case Opcode::TileNew: {
          const auto t = unpack<TileImm>(op.imm);
          const bool whole = t.scope != Scope::simdgroup;
          if (t.scope != Scope::simdgroup && t.scope != Scope::threadgroup)
            throw Error("EXEC81", fmt::format("a tile of scope {} does not run in the interpreter", name(t.scope)),
                        "use a simdgroup or threadgroup tile");
          mem_[id] = static_cast<u32>(p_.tiles.size());
          p_.tiles.push_back(
              {{op.type.rows, op.type.cols, whole ? threads_ : p_.width}, op.type.elem, t.input, whole, id});
          return;
        }
        default:
          return;
      }
      mem_[id] = static_cast<u32>(p_.mems.size());
      p_.mems.push_back(m);
    });
  }
  // Views, accumulators, pipelines and turns are named by their numbers; the first two keep registers of their own.
  void find_tier_objects() {
    for (const auto& [id, number] : p_.tier->object) mem_[id] = number;
    for (auto& v : p_.tier->views) {
      v.mem = mem_[k_.operand(v.op, 0)];
      v.reg = fresh(3 * 8 * p_.width);
    }
    for (auto& a : p_.tier->accs) a.reg = fresh(u32{a.type.rows} * a.type.cols / 4 * dtype_size(a.type.elem));
  }
  static void narrow(u32& log2, u32 size, u64 offset) {
    log2 = std::min(log2, static_cast<u32>(std::countr_zero(size)));
    if (offset) log2 = std::min(log2, static_cast<u32>(std::countr_zero(offset)));
  }

  // --- registers
  void find_last_uses() {
    last_.assign(k_.op_capacity(), none);
    std::vector<OpId> owner(k_.region_capacity(), none);
    k_.walk([&](OpId id) {
      for (const OpId v : k_.operands(id)) {
        OpId at = id;  // the op of v's own region that holds the use
        while (k_.op(at).region != k_.op(v).region) at = k_.region(k_.op(at).region).parent;
        last_[v] = at;  // the walk is in program order
      }
    });
    dying_.assign(k_.op_capacity(), {});
    for (OpId v = 0; v < k_.op_capacity(); ++v)
      if (k_.alive(v) && last_[v] != none && k_.type(v).is_value() && !is_preset(k_.op(v).code) &&
          k_.op(v).code != Opcode::Arg && k_.op(v).code != Opcode::SlotNew)
        dying_[last_[v]].push_back(v);
  }
  u32 bytes_of(OpId id) const { return align64(dtype_size(k_.type(id).elem) * k_.type(id).lanes * p_.width); }
  u32 fresh(u32 bytes) {
    const u32 at = top_;
    top_ += bytes;
    return at;
  }
  u32 allocate(u32 bytes) {
    auto& list = free_[bytes];
    if (list.empty()) return fresh(bytes);
    const u32 at = list.back();
    list.pop_back();
    return at;
  }
  void define(OpId id) {
    if (p_.reg[id] == none) p_.reg[id] = allocate(bytes_of(id));
  }
  void release(OpId after) {
    for (const OpId v : dying_[after])
      if (p_.reg[v] != none) free_[bytes_of(v)].push_back(p_.reg[v]);
  }

  // --- instructions
  u32 emit(OpId id, Handler fn) {
    Instr in;
    in.fn = fn, in.op = id;
    p_.code.push_back(in);
    return static_cast<u32>(p_.code.size() - 1);
  }
  void add_copy(OpId from, OpId to) { add_copy_regs(p_.reg[from], p_.reg[to], to); }
  void add_copy_regs(u32 from, u32 to, OpId type_of) {
    if (from != to) p_.copies.push_back({from, to, dtype_size(k_.type(type_of).elem), k_.type(type_of).lanes});
  }

  void region(RegionId r) {
    const auto& ops = k_.region(r).ops;
    for (const OpId id : ops) {
      op(id);
      if (k_.op(id).region_count == 0 && k_.op(id).code != Opcode::Yield)
        release(id);  // a yield's values are copied first
    }
  }

  void op(OpId id) {
    const auto& op = k_.op(id);
    if (is_preset(op.code) || op.code == Opcode::Yield || op.code == Opcode::Result) return;
    switch (op.code) {
      case Opcode::If:
        return branch(id);
      case Opcode::For:
        return loop(id);
      case Opcode::Roles:
        return roles(id);
      case Opcode::Call:
        throw Error("EXEC81", fmt::format("a call of {} does not run by itself", k_.texts[op.imm]),
                    "run kernel_inline first");
      case Opcode::Arg:
      case Opcode::SharedNew:
      case Opcode::SharedAlias:
      case Opcode::View:
      case Opcode::TileNew:
      case Opcode::Prefetch:
        return;
      default:
        break;
    }
    if (op.type.is_value()) define(id);
    check_left_fragment(id);
    if (op.code == Opcode::Bitcast && is_float(k_.type(k_.operand(id, 0)).elem) && makes_nan(k_.operand(id, 0))) {
      const u32 at = emit(id, check_nan_handler());
      fill(p_.code[at], id);
    }
    const u32 at = emit(id, nullptr);
    fill(p_.code[at], id);
    choose(id, p_.code[at]);
    if (p_.code[at].fn == nullptr)
      throw Error("EXEC81", fmt::format("the interpreter does not run {}", print_op(k_, id)));
    if (options_.index32 && op.type == index_type && can_eval(op.code)) {
      const u32 check = emit(id, check_index_handler());
      p_.code[check].a = p_.reg[id], p_.code[check].n = p_.width;
    }
  }

  bool makes_nan(OpId v) const {
    const auto c = k_.op(v).code;
    return can_eval(c) && c != Opcode::Select && c != Opcode::Bitcast && c != Opcode::Neg && c != Opcode::Abs;
  }

  void fill(Instr& in, OpId id) {
    const auto& op = k_.op(id);
    const auto operands = k_.operands(id);
    in.imm = op.imm;
    in.elem = op.type.elem, in.lanes = op.type.is_value() ? op.type.lanes : u8{1};
    in.dst = p_.reg[id];
    u32* const slots[] = {&in.a, &in.b, &in.c, &in.d};
    u32 slot = 0;
    in.first = static_cast<u32>(p_.operands.size());
    in.count = static_cast<u32>(operands.size());
    bool first_memory = true;
    for (const OpId v : operands) {
      if (k_.type(v).is_value()) {
        if (slot < 4) *slots[slot++] = p_.reg[v];
        p_.operands.push_back(p_.reg[v]);
      } else {
        if (first_memory) in.mem = mem_[v];
        first_memory = false;
        p_.operands.push_back(mem_[v]);
      }
    }
    if (!operands.empty()) in.source = k_.type(operands[0]).elem;
    in.n = p_.width * in.lanes;
  }

  void choose(OpId id, Instr& in) {
    const auto& op = k_.op(id);
    if (p_.tier) {
      if (const auto it = p_.tier->object.find(id); it != p_.tier->object.end()) in.imm = it->second;
      in.fn = tier_handler(op.code);
      if (in.fn) return;
    }
    if (can_eval(op.code)) {
      if (op.code == Opcode::Select) in.imm = k_.type(k_.operand(id, 0)).lanes > 1;
      if (op.code == Opcode::Bitcast) {
        in.fn = bitcast_handler();
        in.imm = k_.type(k_.operand(id, 0)).lanes;
        return;
      }
      in.fn = pure_handler(op.code, in.source, in.elem);
      if (!in.fn) in.fn = eval_handler(), in.imm = op.imm;
      return;
    }
    if (convergent_handler(k_, id, in) || fact_handler(k_, id, in)) return;
    if (k_.info_of(id).has(TileOp) || op.code == Opcode::TileRow || op.code == Opcode::TileCol ||
        op.code == Opcode::TileElems) {
      tile_handler(k_, id, p_, in);
      return;
    }
    switch (op.code) {
      case Opcode::VecMake:
      case Opcode::VecExtract:
      case Opcode::VecInsert:
      case Opcode::SlotNew:
      case Opcode::SlotLoad:
      case Opcode::SlotStore:
        return moves(id, in);
      default:
        break;
    }
    const Mem* m = k_.operands(id).empty() ? nullptr : &p_.mems[in.mem];
    if (op.code == Opcode::ArrayNew) in.mem = mem_[id], m = &p_.mems[in.mem];
    if (op.code == Opcode::Store || op.code == Opcode::CopyAsync || op.code == Opcode::AtomicStore) {
      in.lanes = k_.type(k_.operand(id, 2)).lanes, in.elem = m->elem;
      if (op.code == Opcode::CopyAsync) p_.shared[m->root].filled_by_copies = true;
    }
    if (op.code == Opcode::WaitUntil || op.code == Opcode::Ticket) p_.waits = true;
    if (op.code == Opcode::WaitUntil || op.code == Opcode::Fence) p_.orders = true;
    if (k_.info_of(id).has(AtomicOp) && k_.info_of(id).imm == ImmKind::Atomic &&
        unpack<AtomicImm>(op.imm).order != MemoryOrder::relaxed)
      p_.orders = true;
    in.fn = memory_handler(op.code, m ? m->size : 1, m ? m->space : Space::none);
  }

  // Vectors and slots are moves between registers.
  void moves(OpId id, Instr& in) {
    const auto& op = k_.op(id);
    const u32 size = dtype_size(k_.type(op.code == Opcode::SlotStore ? k_.operand(id, 1) : id).elem),
              row = size * p_.width;
    in.first = static_cast<u32>(p_.copies.size());
    const auto reg_of = [&](u32 i) { return p_.reg[k_.operand(id, i)]; };
    const auto copy = [&](u32 from, u32 to, u32 lanes) { p_.copies.push_back({from, to, size, lanes}); };
    switch (op.code) {
      case Opcode::VecMake:
        for (u32 i = 0; i < op.operand_count; ++i) copy(reg_of(i), in.dst + i * row, 1);
        break;
      case Opcode::VecExtract:
        copy(reg_of(0) + static_cast<u32>(op.imm) * row, in.dst, 1);
        break;
      case Opcode::VecInsert:
        copy(reg_of(0), in.dst, in.lanes);
        copy(reg_of(1), in.dst + static_cast<u32>(op.imm) * row, 1);
        break;
      case Opcode::SlotLoad:
        copy(reg_of(0), in.dst, in.lanes);
        break;
      case Opcode::SlotStore:
        copy(reg_of(1), reg_of(0), k_.type(k_.operand(id, 1)).lanes);
        break;
      default:
        break;
    }
    in.count = static_cast<u32>(p_.copies.size()) - in.first;
    in.imm = op.code == Opcode::SlotStore;  // under the mask
    in.fn = control_handlers().copy;
  }

  // A fragment that a product reads from registers is set here: not while it is in flight.
  void check_left_fragment(OpId value) {
    if (!p_.tier || !p_.tier->left_fragment.contains(value)) return;
    p_.code[emit(value, fragment_check_handler())].imm = value;
  }

  // Each role's simdgroups run its region, the others jump over it.
  void roles(OpId id) {
    for (u32 i = 0; i < k_.op(id).region_count; ++i) {
      const u32 begin = emit(id, role_handlers().begin);
      p_.code[begin].imm = i;
      region(k_.region_of(id, i));
      emit(id, role_handlers().end);
      p_.code[begin].target = static_cast<u32>(p_.code.size());
    }
    release(id);
  }

  void branch(OpId id) {
    const auto& h = control_handlers();
    const auto results = k_.results(id);
    for (const OpId r : results) define(r), check_left_fragment(r);
    const u32 begin = emit(id, h.if_begin);
    p_.code[begin].a = p_.reg[k_.operand(id, 0)];
    u32 ends[2];
    for (u32 arm = 0; arm < 2; ++arm) {
      const RegionId r = k_.region_of(id, arm);
      if (arm == 1) p_.code[begin].target = static_cast<u32>(p_.code.size());
      region(r);
      const u32 first = static_cast<u32>(p_.copies.size());
      for (std::size_t i = 0; i < results.size(); ++i)
        add_copy(k_.operand(k_.terminator(r), static_cast<u32>(i)), results[i]);
      ends[arm] = emit(id, arm == 0 ? h.then_end : h.else_end);
      p_.code[ends[arm]].first = first, p_.code[ends[arm]].count = static_cast<u32>(p_.copies.size()) - first;
      release(k_.terminator(r));
    }
    const u32 after = static_cast<u32>(p_.code.size());
    p_.code[begin].first = begin + 1, p_.code[begin].count = after;
    p_.code[ends[0]].target = p_.code[begin].target, p_.code[ends[1]].target = after;
    p_.code[ends[0]].dst = after, p_.code[ends[1]].dst = begin + 1;
    release(id);
  }

  void loop(OpId id) {
    const auto& h = control_handlers();
    const auto results = k_.results(id);
    const RegionId body = k_.region_of(id, 0);
    const auto& args = k_.region(body).args;
    for (const OpId a : args) define(a), check_left_fragment(a);
    for (const OpId r : results) define(r), check_left_fragment(r);
    const u32 trips = allocate(align64(8 * p_.width));
    const u32 begin = emit(id, h.loop_begin);
    {
      Instr& in = p_.code[begin];
      in.a = p_.reg[k_.operand(id, 0)], in.b = p_.reg[k_.operand(id, 1)], in.c = p_.reg[k_.operand(id, 2)],
      in.d = trips;
      in.dst = p_.reg[args[0]];
      in.elem = k_.type(args[0]).elem;
      in.first = static_cast<u32>(p_.copies.size());
    }
    for (u32 i = 1; i < args.size(); ++i) add_copy(k_.operand(id, i + 2), args[i]);
    p_.code[begin].count = static_cast<u32>(p_.copies.size()) - p_.code[begin].first;
    const u32 head = emit(id, h.loop_head);
    {
      Instr& in = p_.code[head];
      const auto until = unpack<UntilImm>(k_.op(id).imm);
      in.imm = until.carried_plus_one != 0;
      if (until.carried_plus_one) in.a = p_.reg[args[until.carried_plus_one]];
      in.d = trips;
      in.first = static_cast<u32>(p_.copies.size());
    }
    for (u32 i = 0; i < results.size(); ++i) add_copy(args[i + 1], results[i]);
    p_.code[head].count = static_cast<u32>(p_.copies.size()) - p_.code[head].first;
    region(body);
    // A yield hands over all values at once: one that is itself an argument of this loop goes through a temporary.
    const OpId yield = k_.terminator(body);
    std::vector<std::pair<u32, u32>> temporaries;
    const u32 first_plain = static_cast<u32>(p_.copies.size());
    std::vector<u32> sources;
    for (u32 i = 0; i < results.size(); ++i) {
      const OpId v = k_.operand(yield, i);
      u32 source = p_.reg[v];
      if (k_.op(v).code == Opcode::Arg && k_.op(v).region == body && v != args[i + 1]) {
        source = allocate(bytes_of(v));
        temporaries.emplace_back(source, bytes_of(v));
        add_copy_regs(p_.reg[v], source, v);
      }
      sources.push_back(source);
    }
    const u32 first_masked = static_cast<u32>(p_.copies.size());
    for (u32 i = 0; i < results.size(); ++i) add_copy_regs(sources[i], p_.reg[args[i + 1]], args[i + 1]);
    for (const OpId a : args) check_left_fragment(a);
    const u32 end = emit(id, h.loop_end);
    {
      Instr& in = p_.code[end];
      in.first = first_plain, in.count = static_cast<u32>(p_.copies.size()) - first_plain;
      in.b = first_masked - first_plain;  // this many first copies fill temporaries
      in.a = p_.reg[args[0]], in.c = p_.reg[k_.operand(id, 2)];
      in.elem = k_.type(args[0]).elem;
      in.target = head;
    }
    p_.code[head].target = end + 1;
    release(yield);
    for (const auto& [at, bytes] : temporaries) free_[bytes].push_back(at);
    free_[align64(8 * p_.width)].push_back(trips);
    for (const OpId a : args) free_[bytes_of(a)].push_back(p_.reg[a]);
    release(id);
  }

  const Kernel& k_;
  const Options& options_;
  u32 threads_;
  Program p_;
  std::vector<u32> mem_;  // of each op: its Mem, or its Tile
  std::vector<OpId> last_;
  std::vector<std::vector<OpId>> dying_;
  std::map<u32, std::vector<u32>> free_;
  u32 top_ = 0;
};
}  // namespace

Program decode(const Kernel& kernel, u32 threads, const Options& options) {
  return Decoder(kernel, threads, options).run();
}

}  // namespace iron::exec
