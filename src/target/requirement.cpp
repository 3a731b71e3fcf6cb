// Capability needs of a kernel, from the op table, element types and packed immediates.
#include "target/requirement.h"

#include <fmt/format.h>

#include "ir/text.h"

namespace iron::target {

namespace {
using ir::Opcode;

class Finder {
 public:
  explicit Finder(const ir::Kernel& k) : k_(k) {}

  Requirement run() {
    for (const auto& p : k_.params) element(p.elem, p.op, p.is_buffer());
    k_.walk([&](ir::OpId id) { op(id); });
    return std::move(out_);
  }

 private:
  void need(Atom atom, ir::OpId id) {
    for (const auto& n : out_.needs)
      if (n.atom == atom) return;
    out_.needs.push_back({atom, id});
  }

  void element(DType elem, ir::OpId id, bool in_memory) {
    if (elem == DType::f64) need(Atom::f64, id);
    if (elem == DType::i64 || elem == DType::u64) need(Atom::int64, id);
    if (in_memory && dtype_size(elem) == 1) need(Atom::int8_memory, id);
    if (in_memory && dtype_size(elem) == 2) need(Atom::int16_memory, id);
  }

  void scope(ir::Scope s, ir::OpId id) {
    if (s == ir::Scope::cluster) need(Atom::cluster, id);
  }

  void op(ir::OpId id) {
    const auto& op = k_.op(id);
    const auto& info = k_.info_of(id);
    if (op.type.kind != ir::TypeKind::none) element(op.type.elem, id, op.type.is_memory());
    if (Atom atom{}; !info.atom.empty() && atom_from_name(info.atom, atom)) need(atom, id);
    if (info.has(ir::Fast) && op.type.elem == DType::f64) need(Atom::fast_f64, id);
    switch (op.code) {
      case Opcode::SharedNew:
        out_.shared_bytes += op.imm * dtype_size(op.type.elem);
        break;
      case Opcode::AtomicRmw:
      case Opcode::AtomicCas:
      case Opcode::AtomicLoad:
      case Opcode::AtomicStore: {
        const auto imm = ir::unpack<ir::AtomicImm>(op.imm);
        const u32 size = dtype_size(k_.type(k_.operand(id, 0)).elem);
        if (op.code == Opcode::AtomicRmw || op.code == Opcode::AtomicCas) {
          if (size == 1) need(Atom::atomic_8, id);
          if (size == 2) need(Atom::atomic_16, id);
          if (size == 8) need(Atom::atomic_64, id);
        }
        if (imm.order != ir::MemoryOrder::relaxed) need(Atom::atomic_order, id);
        scope(imm.scope, id);
        break;
      }
      case Opcode::WaitUntil:
        scope(ir::unpack<ir::WaitImm>(op.imm).scope, id);
        break;
      case Opcode::Fence:
        need(Atom::atomic_order, id);
        scope(ir::unpack<ir::AtomicImm>(op.imm).scope, id);
        break;
      default:
        break;
    }
  }

  const ir::Kernel& k_;
  Requirement out_;
};
}  // namespace

AtomSet Requirement::atoms() const {
  AtomSet set;
  for (const auto& n : needs) set.add(n.atom);
  return set;
}

Requirement requirement(const ir::Kernel& k) { return Finder(k).run(); }

std::vector<Diagnostic> fit(const ir::Kernel& k, const Profile& profile) {
  const Requirement r = requirement(k);
  std::vector<Diagnostic> found;
  for (const auto& n : r.needs) {
    if (profile.atoms.has(n.atom)) continue;
    Diagnostic d;
    d.code = "D20";
    d.message = fmt::format("{} has no {} ({})", profile.name, name(n.atom), meaning(n.atom));
    d.kernel = k.name;
    d.file = k.location(n.first_use).file, d.line = k.location(n.first_use).line;
    d.notes.push_back({"needed by " + ir::print_op(k, n.first_use), "", 0});
    d.fix = "run it on a device that has it, or choose another member of the family";
    found.push_back(std::move(d));
  }
  if (r.shared_bytes > profile.shared_bytes) {
    Diagnostic d;
    d.code = "D27";
    d.message = fmt::format("the kernel declares {} bytes of threadgroup memory, {} has {}", r.shared_bytes,
                            profile.name, profile.shared_bytes);
    d.kernel = k.name;
    d.fix = "use smaller tiles or fewer stages";
    found.push_back(std::move(d));
  }
  return found;
}

}  // namespace iron::target
