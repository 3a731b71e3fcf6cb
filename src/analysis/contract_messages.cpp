// What a refused launch says.
#include <fmt/format.h>

#include "analysis/contract_evaluator.h"
#include "ir/text.h"

namespace iron::analysis {

using namespace ir;

Diagnostic* BodyEvaluator::refuse(std::string code, OpId id, std::string message) {
  if (silent_ || problems_.size() >= 8) return nullptr;
  Diagnostic d;
  d.code = std::move(code), d.message = std::move(message), d.kernel = k_.name;
  d.file = k_.location(id).file, d.line = k_.location(id).line;
  for (const auto& other : problems_)  // unrolled copies of one access say the same
    if (other.code == d.code && other.message == d.message && other.line == d.line) return nullptr;
  problems_.push_back(std::move(d));
  return &problems_.back();
}

void BodyEvaluator::out_of_bounds(OpId id, OpId memory, OpId index, Wide lo, Wide hi, Wide n) {
  const OpId source = unbounded_source(index, hi >= n);
  const Range all = Range::of(DType::index);
  const OpId root = memory_root(k_, memory);
  const bool global = k_.op(root).code == Opcode::Param;
  const bool overflow = lo <= all.lo || hi >= all.hi;
  const std::string where = named(memory), what = describe(id);
  const char* code = !global ? "LAUNCH02" : source != none || overflow ? "LAUNCH01" : "D25";
  Diagnostic* d = nullptr;
  if (n == 0)
    d = refuse(code, id, fmt::format("{} may touch {}, which is empty in this launch", what, where));
  else if (overflow && source == none)
    d = refuse(code, id, fmt::format("the subscript of {} in {} may not fit 64 bits", what, where));
  else
    d = refuse(code, id,
               fmt::format("{} may touch elements {} to {} of {}, which has {} elements", what, to_string(lo),
                           to_string(hi), where, to_string(n)));
  if (!d) return;
  if (source != none)
    name_source(*d, source);
  else if (!overflow)
    d->notes.push_back(
        {fmt::format("the subscript is {} in {}", expression(k_, index), to_string(facts_.range(index))), "", 0});
  note_launch(*d);
  if (source != none)
    d->fix = fmt::format("guard it: if_(i < {0}) or load_or(i < {0}, i, other), or clamp it: bounded(i, 0, {1})",
                         to_string(n), to_string(n - 1));
  else if (overflow)
    d->fix = "launch with smaller numbers, or bound the factors of the subscript with bounded()";
  else if (lo < 0 && hi < n)
    d->fix = "guard the access against negative subscripts: if_(i >= 0) or load_or(i >= 0, i, other)";
  else if (global && lo >= 0)
    d->fix =
        fmt::format("pass a buffer of at least {} bytes, or guard the access: if_(i < {}) or load_or",
                    to_string((hi + 1) * dtype_size(k_.type(memory).elem) + static_cast<Wide>(byte_offset(k_, memory))),
                    to_string(n));
  else
    d->fix = fmt::format("guard the access: if_({}i < {})", lo < 0 ? "i >= 0 && " : "", to_string(n));
}

std::string BodyEvaluator::describe(OpId id) const {
  const auto& i = k_.info_of(id);
  if (k_.op(id).code == Opcode::Load || k_.op(id).code == Opcode::LoadOr)
    return k_.type(id).lanes > 1 ? fmt::format("the load of {} elements", k_.type(id).lanes) : "the load";
  if (k_.op(id).code == Opcode::Store) {
    const u32 lanes = k_.type(k_.operand(id, 2)).lanes;
    return lanes > 1 ? fmt::format("the store of {} elements", lanes) : "the store";
  }
  if (k_.op(id).code == Opcode::CopyAsync)
    return fmt::format("the copy of {} elements", k_.type(k_.operand(id, 2)).lanes);
  return fmt::format("the {}", i.text);
}
std::string BodyEvaluator::named(OpId memory) const {
  const OpId root = memory_root(k_, memory);
  std::string s;
  switch (k_.op(root).code) {
    case Opcode::Param:
      s = k_.params[k_.op(root).imm].name;
      break;
    case Opcode::SharedNew:
      s = fmt::format("the threadgroup array of {} {}", k_.op(root).imm, dtype_name(k_.type(root).elem));
      break;
    default:
      s = fmt::format("the thread's array of {} {}", k_.op(root).imm, dtype_name(k_.type(root).elem));
      break;
  }
  return root == memory ? s : fmt::format("{} seen as {}", s, dtype_name(k_.type(memory).elem));
}
void BodyEvaluator::note_launch(Diagnostic& d) const {
  const auto dim = [](const Dim3& v) { return fmt::format("{} x {} x {}", v.x, v.y, v.z); };
  std::string text =
      fmt::format("this launch: {} threadgroups of {} threads", dim(geometry_.groups), dim(geometry_.threads));
  if (c_.uses_items) text += fmt::format(", {} items", geometry_.items);
  for (std::size_t i = 0; i < k_.params.size(); ++i)
    if (k_.params[i].kind == ParamKind::scalar && !is_float(k_.params[i].elem))
      text += fmt::format(", {} = {}", k_.params[i].name, static_cast<i64>(args_[i].scalar));
  d.notes.push_back({text, "", 0});
}
void BodyEvaluator::name_source(Diagnostic& d, OpId source) const {
  d.notes.push_back({fmt::format("nothing bounds {}: it may be anything in {}", expression(k_, source),
                                 to_string(Range::of(k_.type(source).elem))),
                     k_.location(source).file, k_.location(source).line});
}
// An op such as min or bounded stops what its operand lets through.
bool BodyEvaluator::passes_on(OpId v, OpId source, bool above) {
  const Range r = facts_.range(v), full = Range::of(k_.type(source).elem);
  return above ? r.hi >= full.hi / 2 : r.lo <= full.lo / 2;
}
// A value read from memory (or reinterpreted) under `v` that nothing bounds on the side that hurts.
OpId BodyEvaluator::unbounded_source(OpId v, bool above, int depth) {
  if (depth > 24 || !k_.type(v).is_scalar() || !(is_integer(k_.type(v)) || k_.type(v).is_bool())) return none;
  if (!c_.needed[v]) return none;
  const auto& op = k_.op(v);
  if (recomputable(k_, v)) {
    for (u32 i = op.code == Opcode::Select ? 1u : 0u; i < op.operand_count; ++i)
      if (const OpId s = unbounded_source(k_.operand(v, i), above, depth + 1); s != none && passes_on(v, s, above))
        return s;
    return none;
  }
  if (op.code == Opcode::Param || op.code == Opcode::Const) return none;
  if (op.code == Opcode::Result) {
    const OpId owner = k_.operand(v, 0);
    if (k_.op(owner).code == Opcode::For)
      if (const OpId s = unbounded_source(k_.operand(owner, static_cast<u32>(op.imm) + 3), above, depth + 1); s != none)
        return s;
    for (u32 r = 0; r < k_.op(owner).region_count; ++r)
      if (const OpId yield = k_.terminator(k_.region_of(owner, r));
          yield != none && op.imm < k_.op(yield).operand_count)
        if (const OpId s = unbounded_source(k_.operand(yield, static_cast<u32>(op.imm)), above, depth + 1); s != none)
          return s;
    return none;
  }
  if (op.code == Opcode::Arg && depth == 0 && facts_.range(v) == Range::of(op.type.elem)) return v;
  if (op.code == Opcode::Arg) return none;
  const Range full = Range::of(op.type.elem), r = facts_.range(v);
  if (op.type.is_index() || op.type.is_bool()) return none;
  return (above ? r.hi == full.hi : r.lo == full.lo) ? v : none;
}

}  // namespace iron::analysis
