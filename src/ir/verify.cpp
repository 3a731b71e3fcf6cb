// Structural verification.
#include "ir/verify.h"

#include <fmt/format.h>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/tier.h"

namespace iron::ir {

namespace {
class Verifier {
 public:
  Verifier(const Kernel& k, std::string_view pass) : k_(k), pass_(pass), seen_(k.op_capacity(), 0) {}

  std::vector<Diagnostic> run() {
    for (const auto& p : k_.params)
      if (p.op == none || !k_.alive(p.op) || k_.op(p.op).code != Opcode::Param)
        say("IR0201", none, fmt::format("parameter {} has lost its op", p.name));
    region(k_.body(), 0);
    return std::move(found_);
  }

 private:
  void say(std::string_view code, OpId id, std::string message, std::string fix = {}) {
    Diagnostic d;
    d.code = code, d.message = std::move(message), d.kernel = k_.name, d.after_pass = pass_, d.fix = std::move(fix);
    if (id != none) {
      d.file = k_.location(id).file, d.line = k_.location(id).line;
      d.notes.push_back({print_op(k_, id), "", 0});
    }
    found_.push_back(std::move(d));
  }

  void region(RegionId r, int depth) {
    if (depth > 256) return say("IR0202", k_.region(r).parent, "regions nest deeper than 256");
    for (const OpId arg : k_.region(r).args) defined(arg);
    const auto& ops = k_.region(r).ops;
    bool body_has_work = false;
    for (std::size_t at = 0; at < ops.size(); ++at) {
      const OpId id = ops[at];
      if (id >= k_.op_capacity() || k_.op(id).region != r) {
        say("IR0203", none, fmt::format("region {} lists op {} which does not belong to it", r, id));
        continue;
      }
      if (seen_[id]) say("IR0204", id, "an op appears twice");
      check(id, r, at, ops);
      defined(id);
      if (k_.info_of(id).has(~static_cast<u32>(Alloc | Terminator | Math | Fast | Convergent))) body_has_work = true;
      for (u32 i = 0; i < k_.op(id).region_count; ++i) region(k_.region_of(id, i), depth + 1);
    }
    const OpId parent = k_.region(r).parent;
    if (parent != none) {
      if (ops.empty() || k_.op(ops.back()).code != Opcode::Yield)
        say("IR0205", parent, "a region does not end in a yield");
      else
        yields(parent, r, ops.back());
      if (k_.op(parent).code == Opcode::For && !body_has_work && k_.op(parent).operand_count == 3)
        say("D06", parent, "a loop with an empty body", "remove the loop, or store what it computes");
    }
  }

  void yields(OpId parent, RegionId r, OpId yield) {
    const auto results = k_.results(parent);
    const auto given = k_.operands(yield);
    if (given.size() != results.size())
      return say("IR0206", yield,
                 fmt::format("a region yields {} values to an op with {} results", given.size(), results.size()));
    for (std::size_t i = 0; i < given.size(); ++i)
      if (k_.type(given[i]) != k_.type(results[i]))
        say("IR0206", yield,
            fmt::format("yielded value {} is {}, the result is {}", i, to_string(k_.type(given[i])),
                        to_string(k_.type(results[i]))));
    if (k_.op(parent).code == Opcode::For) {
      const auto& args = k_.region(r).args;
      if (args.size() != results.size() + 1)
        return say("IR0207", parent, "a loop carries as many values as it has results");
      for (std::size_t i = 0; i < results.size(); ++i)
        if (k_.type(args[i + 1]) != k_.type(results[i]) ||
            k_.type(k_.operand(parent, static_cast<u32>(i) + 3)) != k_.type(results[i]))
          say("IR0207", parent, fmt::format("carried value {} changes its type", i));
    }
  }

  void check(OpId id, RegionId r, std::size_t at, const std::vector<OpId>& ops) {
    const auto& op = k_.op(id);
    for (const OpId v : k_.operands(id)) {
      if (v >= k_.op_capacity() || !k_.alive(v)) return say("IR0208", id, "an operand is no longer in the kernel");
      if (!seen_[v] && v != id) return say("IR0209", id, "a value is used before it is defined");
      if (!k_.encloses(k_.op(v).region, r))
        return say("IR0210", id, "a value is used outside the region that defines it");
    }
    switch (op.code) {
      case Opcode::Yield:
        if (at + 1 != ops.size() || k_.region(r).parent == none)
          say("IR0211", id, "a yield stands only at the end of an owned region");
        return;
      case Opcode::Result:
        if (k_.op(k_.operand(id, 0)).region_count == 0) say("IR0212", id, "a result of an op without regions");
        return;
      case Opcode::For: {
        if (op.operand_count < 3 || op.region_count != 1)
          return say("IR0213", id, "a loop needs start, end, step and one region");
        const Type t = k_.type(k_.operand(id, 0));
        if (!t.is_scalar() || !(is_int(t.elem) || t.elem == DType::index) || k_.type(k_.operand(id, 1)) != t ||
            k_.type(k_.operand(id, 2)) != t)
          say("IR0213", id, "start, end and step are integers of one type");
        i64 step = 0;
        if (const_index(k_, k_.operand(id, 2), step) && step < 1)
          say("D02", id, fmt::format("a loop steps by {}", step),
              "steps are at least 1; count upwards and compute the falling value");
        if (const auto u = unpack<UntilImm>(op.imm); u.carried_plus_one) {
          const u32 n = u.carried_plus_one + 2;
          if (n >= op.operand_count || k_.type(k_.operand(id, n)) != bool_type)
            say("IR0213", id, "until names a carried bool");
        }
        return;
      }
      case Opcode::If:
        if (op.operand_count != 1 || k_.type(k_.operand(id, 0)) != bool_type || op.region_count != 2)
          say("IR0214", id, "a branch needs one scalar bool and two regions");
        return;
      case Opcode::Roles:
        roles(id);
        return;
      case Opcode::SharedNew:
      case Opcode::ArrayNew:
        if (!op.type.is_memory() || op.imm == 0)
          say("IR0215", id, "an array needs a memory type and at least one element");
        return;
      case Opcode::Shl:
      case Opcode::Shr: {
        i64 amount = 0;
        if (const_index(k_, k_.operand(id, 1), amount) &&
            (amount < 0 || amount >= static_cast<i64>(dtype_bits(op.type.elem))))
          say("D23", id, fmt::format("a shift by {} of a {}-bit value", amount, dtype_bits(op.type.elem)),
              "shift by 0 to the width minus 1");
        break;
      }
      default:
        break;
    }
    if (k_.info_of(id).has(OneThread) || op.code == Opcode::RoleIndex) in_role(id);
    const auto [type, problem] = infer(k_, op.code, k_.operands(id), op.imm, op.type);
    if (!problem.empty())
      say("IR0101", id, problem);
    else if (type != op.type)
      say("IR0101", id, fmt::format("the result is {}, the table gives {}", to_string(op.type), to_string(type)));
    if (k_.info_of(id).has(Writes) && op.code != Opcode::Call) writes_output(id);
  }

  void roles(OpId id) {
    std::string problem;
    const auto list = parse_roles(k_.texts[k_.op(id).imm], &problem);
    if (!problem.empty()) return say("TIER01", id, problem, "list each as in \"load 1 40 one; mma 2 232 all\"");
    if (list.size() != k_.op(id).region_count)
      return say("TIER01", id,
                 fmt::format("{} roles are listed, {} have a region", list.size(), k_.op(id).region_count));
    if (k_.op(id).region != k_.body())
      say("TIER01", id, "roles inside a loop or branch", "split the threadgroup once, in the kernel's body");
    u64 registers = 0;
    for (const auto& r : list) {
      if (r.registers && (r.registers < 24 || r.registers > 256 || r.registers % 8))
        say("TIER02", id, fmt::format("role {} asks for {} registers a thread", r.name, r.registers),
            "a budget is a multiple of 8 from 24 to 256");
      registers += u64{r.registers} * r.warpgroups * Type::warpgroup_threads;
    }
    if (registers > 65536)
      say("TIER02", id, fmt::format("the roles' budgets come to {} registers, a threadgroup has 65536", registers),
          "lower the budgets: 40 and 232, or 24 and 240, for one loading and two using warpgroups");
  }
  void in_role(OpId id) {
    const RegionId r = role_region(k_, id);
    if (r == none) return say("TIER01", id, fmt::format("{} outside roles", k_.info_of(id).text), "put it into a role");
    const OpId owner = k_.region(r).parent;
    const auto list = roles_of(k_, owner);
    const u32 n = r - k_.region_of(owner, 0);
    if (k_.info_of(id).has(OneThread) && n < list.size() && !list[n].one_thread)
      say("TIER01", id,
          fmt::format("{} in role {}, whose threads would all issue it", k_.info_of(id).text, list[n].name),
          "declare the role with Issue::one");
  }

  void writes_output(OpId id) {
    const OpId mem = k_.info_of(id).has(TileOp) ? (op_is_tile_store(id) ? k_.operand(id, 1) : none) : k_.operand(id, 0);
    if (mem == none || !k_.type(mem).is_memory()) return;
    const OpId root = memory_root(k_, mem);
    if (k_.op(root).code != Opcode::Param) return;
    const auto& p = k_.params[k_.op(root).imm];
    if (p.kind == ParamKind::in)
      say("D24", id, fmt::format("a store into {}, which is an input", p.name), "declare it Out<T> or InOut<T>");
  }
  bool op_is_tile_store(OpId id) const { return k_.op(id).code == Opcode::TileStore; }

  void defined(OpId id) { seen_[id] = 1; }

  const Kernel& k_;
  std::string_view pass_;
  std::vector<char> seen_;
  std::vector<Diagnostic> found_;
};
}  // namespace

std::vector<Diagnostic> verify_structure(const Kernel& k, std::string_view after_pass) {
  return Verifier(k, after_pass).run();
}

}  // namespace iron::ir
