// Slots to SSA over structured control flow: one walk that carries the current value of each slot.
#include "ir/promote.h"

#include <algorithm>
#include <map>
#include <set>

#include "ir/builder.h"

namespace iron::ir {

namespace {
using Env = std::map<OpId, OpId>;  // slot -> its value in the new kernel; `none` while undefined

class Promoter {
 public:
  explicit Promoter(const Kernel& in) : in_(in), build_(out_), map_(in.op_capacity(), none) {}

  Kernel run() {
    out_.name = in_.name, out_.mode = in_.mode, out_.numerics = in_.numerics, out_.spec = in_.spec,
    out_.file = in_.file;
    out_.width_generic = in_.width_generic;
    out_.callees = in_.callees;
    out_.texts = in_.texts;
    for (const auto& p : in_.params) map_[p.op] = out_.add_param(p.name, p.kind, p.elem, location(p.op), p.tensor);
    collect(in_.body());
    Env env;
    build_.set_point(out_.body());
    region(in_.body(), env);
    return std::move(out_);
  }

 private:
  LocId location(OpId id) {
    const auto& l = in_.location(id);
    return l.line ? out_.intern_location(l.file, l.line) : 0;
  }

  // Slots that a region stores to, with those below it.
  const std::set<OpId>& collect(RegionId r) {
    auto& set = stored_[r];
    for (const OpId id : in_.region(r).ops) {
      if (in_.op(id).code == Opcode::SlotStore) set.insert(in_.operand(id, 0));
      for (u32 i = 0; i < in_.op(id).region_count; ++i) {
        const auto& nested = collect(in_.region_of(id, i));
        set.insert(nested.begin(), nested.end());
      }
    }
    return set;
  }

  std::vector<OpId> mapped(std::span<const OpId> operands) const {
    std::vector<OpId> out;
    for (const OpId v : operands) out.push_back(map_[v]);
    return out;
  }

  void region(RegionId r, Env& env) {
    for (const OpId id : in_.region(r).ops) {
      build_.set_location(location(id));
      switch (in_.op(id).code) {
        case Opcode::Param:
        case Opcode::Yield:
        case Opcode::Result:
          break;
        case Opcode::SlotNew:
          env[id] = none;
          break;
        case Opcode::SlotStore:
          env[in_.operand(id, 0)] = map_[in_.operand(id, 1)];
          break;
        case Opcode::SlotLoad:
          map_[id] = read(id, env);
          break;
        case Opcode::For:
          loop(id, env);
          break;
        case Opcode::If:
          branch(id, env);
          break;
        default:
          other(id, env);
          break;
      }
    }
  }

  OpId read(OpId id, const Env& env) {
    const OpId value = env.at(in_.operand(id, 0));
    if (value != none) return value;
    Diagnostic d;
    d.code = "D32", d.message = "a variable is read before every path has given it a value";
    d.file = in_.location(id).file, d.line = in_.location(id).line, d.kernel = in_.name;
    d.fix = "give it a value where it is declared";
    throw Error(std::move(d));
  }

  void other(OpId id, Env& env) {
    const auto& op = in_.op(id);
    const OpId made = out_.create(op.code, op.type, mapped(in_.operands(id)), op.imm, location(id), op.region_count);
    out_.append(build_.region(), made);
    build_.set_point(build_.region());
    map_[id] = made;
    for (u32 i = 0; i < op.region_count; ++i) {  // roles: each body sees the values from outside, none come back
      const RegionId outer = build_.region();
      Env inner = env;
      build_.set_point(out_.region_of(made, i));
      region(in_.region_of(id, i), inner);
      build_.yield({});
      build_.set_point(outer);
    }
  }

  // Slots of the outside that `r` changes and that have a value here, in order of declaration.
  std::vector<OpId> carried(const std::set<OpId>& stored, const Env& env) const {
    std::vector<OpId> out;
    for (const OpId slot : stored)
      if (const auto it = env.find(slot); it != env.end() && it->second != none) out.push_back(slot);
    return out;
  }

  void loop(OpId id, Env& env) {
    const RegionId body = in_.region_of(id, 0);
    const bool has_until = in_.op(id).operand_count == 4;
    auto slots = carried(stored_[body], env);
    UntilImm until;
    if (has_until) {
      const OpId slot = in_.operand(id, 3);
      auto it = std::find(slots.begin(), slots.end(), slot);
      if (it == slots.end()) it = slots.insert(slots.end(), slot);
      until.carried_plus_one = static_cast<u32>(it - slots.begin()) + 1;
    }
    std::vector<OpId> init;
    for (const OpId s : slots) init.push_back(env.at(s));
    const auto o = in_.operands(id);
    const OpId made = build_.for_(map_[o[0]], map_[o[1]], map_[o[2]], init, until);
    const RegionId outer = build_.region(), inner = out_.region_of(made, 0);
    map_[in_.region(body).args[0]] = out_.region(inner).args[0];
    Env local = env;
    // What the body stores without a value from outside starts each turn undefined.
    for (const OpId s : stored_[body])
      if (local.count(s)) local[s] = none;
    for (std::size_t i = 0; i < slots.size(); ++i) local[slots[i]] = out_.region(inner).args[i + 1];
    build_.set_point(inner);
    region(body, local);
    std::vector<OpId> values;
    for (const OpId s : slots) values.push_back(local.at(s));
    build_.yield(values);
    build_.set_point(outer);
    const auto results = out_.results(made);
    for (std::size_t i = 0; i < slots.size(); ++i) env[slots[i]] = results[i];
  }

  void branch(OpId id, Env& env) {
    std::set<OpId> stored = stored_[in_.region_of(id, 0)];
    const auto& other_stored = stored_[in_.region_of(id, 1)];
    stored.insert(other_stored.begin(), other_stored.end());
    // Record both arms first: a slot is a result only if both leave it with a value.
    const OpId condition[] = {map_[in_.operand(id, 0)]};
    const LocId loc = location(id);
    const OpId made = out_.create(Opcode::If, none_type, condition, 0, loc, 2);
    const RegionId outer = build_.region();
    out_.append(outer, made);
    Env arms[2] = {env, env};
    for (u32 i = 0; i < 2; ++i) {
      build_.set_point(out_.region_of(made, i));
      region(in_.region_of(id, i), arms[i]);
    }
    std::vector<OpId> slots;
    for (const OpId s : stored) {
      if (!env.count(s)) continue;
      if (arms[0].at(s) != none && arms[1].at(s) != none)
        slots.push_back(s);
      else
        env[s] = none;
    }
    for (u32 i = 0; i < 2; ++i) {
      std::vector<OpId> values;
      for (const OpId s : slots) values.push_back(arms[i].at(s));
      build_.set_point(out_.region_of(made, i));
      build_.set_location(loc);
      build_.yield(values);
    }
    build_.set_point(outer);
    const OpId self[] = {made};
    for (std::size_t i = 0; i < slots.size(); ++i) {
      const OpId result = out_.create(Opcode::Result, in_.type(slots[i]), self, i, loc);
      out_.append(outer, result);
      env[slots[i]] = result;
    }
    build_.set_point(outer);
  }

  const Kernel& in_;
  Kernel out_;
  Builder build_;
  std::vector<OpId> map_;
  std::map<RegionId, std::set<OpId>> stored_;
};
}  // namespace

void promote_slots(Kernel& k) { k = Promoter(k).run(); }

}  // namespace iron::ir
