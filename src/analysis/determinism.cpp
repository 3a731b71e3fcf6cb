// Inference of the determinism class.
#include "analysis/determinism.h"

#include <fmt/format.h>

namespace iron::analysis {

using namespace ir;

namespace {
bool rounds(Type t, ReduceKind kind) {
  return is_float(t.elem) && (kind == ReduceKind::sum || kind == ReduceKind::prod);
}
}  // namespace

Determinism infer_determinism(const Kernel& k) {
  const auto users = use_lists(k);
  Determinism d;
  const auto at_best = [&](DeterminismClass cls, OpId id, std::string why) {
    d.cls = std::max(d.cls, cls);
    d.reasons.push_back({std::move(why), k.location(id).file, k.location(id).line});
  };
  k.walk([&](OpId id) {
    const auto& op = k.op(id);
    const auto& i = k.info_of(id);
    switch (op.code) {
      case Opcode::AtomicRmw: {
        const auto kind = unpack<AtomicImm>(op.imm).kind;
        if (!users[id].empty())
          at_best(DeterminismClass::unordered, id, "uses what an atomic found, which depends on who came first");
        else if (kind == AtomicKind::exchange || kind == AtomicKind::inc_wrap)
          at_best(DeterminismClass::unordered, id, fmt::format("an atomic {} leaves what came last", name(kind)));
        else if (kind == AtomicKind::add && is_float(op.type.elem))
          at_best(DeterminismClass::unordered, id, "a float atomic add rounds in the order of arrival");
        return;
      }
      case Opcode::AtomicCas:
      case Opcode::AtomicLoad:
      case Opcode::WaitUntil:
      case Opcode::Ticket:
        at_best(DeterminismClass::unordered, id, fmt::format("{} sees what other threads have done so far", i.text));
        return;
      case Opcode::SimdReduce:
      case Opcode::GroupReduce:
        if (k.width_generic && rounds(op.type, unpack<ReduceKind>(op.imm)))
          at_best(DeterminismClass::ordered, id, "a float reduction in a kernel that is generic over the simd width");
        return;
      case Opcode::SimdScan:
      case Opcode::GroupScan:
        if (k.width_generic && rounds(op.type, unpack<ScanImm>(op.imm).kind))
          at_best(DeterminismClass::ordered, id, "a float scan in a kernel that is generic over the simd width");
        return;
      case Opcode::TileMma:
        if (is_float(unpack<TileImm>(k.op(k.operand(id, 0)).imm).input))
          at_best(DeterminismClass::ordered, id, "a float tile product: a device's matrix unit sums in its own order");
        return;
      default:
        if (i.has(Fast))
          at_best(DeterminismClass::ordered, id, fmt::format("{} is the device's own approximation", i.text));
    }
  });
  return d;
}

std::string to_string(const Determinism& d) {
  switch (d.cls) {
    case DeterminismClass::bitwise:
      return "bitwise";
    case DeterminismClass::unordered:
      return "unordered";
    case DeterminismClass::ordered:
      break;
  }
  for (const auto& r : d.reasons)
    if (r.text.find("simd width") == std::string::npos) return "ordered(device)";
  return "ordered(width)";
}

}  // namespace iron::analysis
