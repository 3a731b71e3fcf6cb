// Rules of the Hopper tier that the table's columns cannot say.
#include "ir/tier.h"

#include <fmt/format.h>

#include <charconv>

#include "ir/text.h"

namespace iron::ir {

namespace {
std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> out;
  while (!text.empty()) {
    const auto end = std::min(text.find(at), text.size());
    if (end > 0) out.push_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return out;
}
bool number(std::string_view text, u32& out) {
  const auto r = std::from_chars(text.data(), text.data() + text.size(), out);
  return r.ec == std::errc{} && r.ptr == text.data() + text.size();
}
}  // namespace

std::vector<RoleSpec> parse_roles(std::string_view text, std::string* problem) {
  std::vector<RoleSpec> roles;
  for (const auto part : split(text, ';')) {
    const auto words = split(part, ' ');
    RoleSpec r;
    if (words.size() != 4 || !number(words[1], r.warpgroups) || !number(words[2], r.registers) ||
        (words[3] != "one" && words[3] != "all")) {
      if (problem) *problem = fmt::format("'{}' is no role: name, warpgroups, registers, then one or all", part);
      return {};
    }
    r.name = words[0], r.one_thread = words[3] == "one";
    roles.push_back(std::move(r));
  }
  if (roles.empty() && problem) *problem = "no role is listed";
  return roles;
}

std::string roles_text(std::span<const RoleSpec> roles) {
  std::string out;
  for (const auto& r : roles)
    out += fmt::format("{}{} {} {} {}", out.empty() ? "" : "; ", r.name, r.warpgroups, r.registers,
                       r.one_thread ? "one" : "all");
  return out;
}

std::vector<RoleSpec> roles_of(const Kernel& k, OpId roles) { return parse_roles(k.texts[k.op(roles).imm]); }

OpId find_roles(const Kernel& k) {
  OpId found = none;
  k.walk([&](OpId id) {
    if (k.op(id).code == Opcode::Roles && found == none) found = id;
  });
  return found;
}

RegionId role_region(const Kernel& k, OpId id) {
  for (RegionId r = k.op(id).region; k.region(r).parent != none; r = k.op(k.region(r).parent).region)
    if (k.op(k.region(r).parent).code == Opcode::Roles) return r;
  return none;
}

bool uses_tier(const Kernel& k) {
  bool found = false;
  k.walk([&](OpId id) { found |= k.info_of(id).has(TierOp) || k.op(id).code == Opcode::Roles; });
  return found;
}

u32 cluster_size(const Kernel& k) {
  u32 size = 1;
  k.walk([&](OpId id) {
    if (k.op(id).code == Opcode::ClusterRank || k.op(id).code == Opcode::ClusterSync)
      size = static_cast<u32>(k.op(id).imm);
  });
  return size;
}

u32 swizzle_bytes(Swizzle swizzle) {
  switch (swizzle) {
    case Swizzle::none:
      return 0;
    case Swizzle::b32:
      return 32;
    case Swizzle::b64:
      return 64;
    case Swizzle::b128:
      return 128;
  }
  return 0;
}

u32 panel_cols(Type t) {
  const u32 span = swizzle_bytes(t.swizzle);
  return span == 0 ? t.cols : std::min<u32>(t.cols, span / dtype_size(t.elem));
}
u64 panel_bytes(Type t) { return u64{t.rows} * panel_cols(t) * dtype_size(t.elem); }
u64 slot_bytes(Type t) { return u64{t.rows} * t.cols * dtype_size(t.elem); }

std::vector<TensorBox> tensor_boxes(const Kernel& k) {
  std::vector<TensorBox> boxes(k.params.size());
  k.walk([&](OpId id) {
    const auto code = k.op(id).code;
    if (code != Opcode::TmaLoad && code != Opcode::TmaStore) return;
    const Type view = k.type(k.operand(id, 1));
    const u32 leading = code == Opcode::TmaLoad ? 4 : 2;
    TensorBox b;
    b.param = static_cast<u32>(k.op(k.operand(id, 0)).imm);
    b.rank = k.op(id).operand_count - leading;
    b.box.fill(1);
    b.box[0] = panel_cols(view);
    if (b.rank > 1) b.box[1] = view.rows;
    b.swizzle = view.swizzle, b.elem = view.elem;
    TensorBox& known = boxes[b.param];
    if (known.rank != 0 && known != b) {
      Diagnostic d;
      d.code = "D11", d.kernel = k.name, d.file = k.location(id).file, d.line = k.location(id).line;
      d.message = fmt::format("tensor {} is copied in boxes of {} x {} and of {} x {}", k.params[b.param].name,
                              known.box[1], known.box[0], b.box[1], b.box[0]);
      d.fix = "one tensor has one box: use views of one shape, or pass the tensor twice";
      throw Error(std::move(d));
    }
    known = b;
  });
  std::erase_if(boxes, [](const TensorBox& b) { return b.rank == 0; });
  return boxes;
}

u64 expected_bytes(const Kernel& k, OpId acquire) {
  u64 bytes = 0;
  k.walk([&](OpId id) {
    if (k.op(id).code != Opcode::TmaLoad || k.operand(id, 3) != acquire) return;
    const bool all = unpack<CopyImm>(k.op(id).imm).multicast;
    bytes += slot_bytes(k.type(k.operand(id, 1))) * (all ? cluster_size(k) : 1);
  });
  return bytes;
}

namespace {
// One op's operands and result, checked in the order in which the table's words name them.
class Rule {
 public:
  Rule(const Kernel& k, Opcode code, std::span<const OpId> operands, u64 imm, Type stated)
      : k_(k), code_(code), o_(operands), imm_(imm), stated_(stated) {}

  Inferred run() {
    switch (code_) {
      case Opcode::SharedView:
        return shared_view();
      case Opcode::PeerLoad:
        need(0, type(0).is_memory() && type(0).space == Space::shared, "threadgroup memory");
        need(1, type(1).is_index(), "a subscript of type index");
        need(2, type(2).is_index(), "a rank of type index");
        return give(Type::value(type(0).elem));
      case Opcode::TmaLoad:
        return copy(4);
      case Opcode::TmaStore:
        return copy(2);
      case Opcode::Reclaim:
        need(0, is(0, TypeKind::view), "a view");
        return give(none_type);
      case Opcode::PipeNew:
        if (imm_ == 0 || imm_ > 64) problem("has 1 to 64 slots");
        return give(Type::object(TypeKind::pipe));
      case Opcode::PipeAcquire:
      case Opcode::PipeWait:
        need(0, is(0, TypeKind::pipe), "a pipeline");
        return give(index_type);
      case Opcode::PipeExpect:
        need(0, is(0, TypeKind::pipe), "a pipeline");
        need(1, type(1).is_index(), "a slot");
        return give(none_type);
      case Opcode::PipeRelease:
        need(0, is(0, TypeKind::pipe), "a pipeline");
        return give(none_type);
      case Opcode::TurnNew:
        return give(Type::object(TypeKind::turn));
      case Opcode::TurnEnter:
      case Opcode::TurnLeave:
        need(0, is(0, TypeKind::turn), "turns");
        return give(none_type);
      case Opcode::AccSettle:
        return give(none_type);
      case Opcode::AccNew:
        if (stated_.kind != TypeKind::acc || stated_.elem != DType::f32 || stated_.rows != 64 || stated_.cols == 0 ||
            stated_.cols % 8 || stated_.cols > 256)
          problem("makes an acc f32[64 x n], n a multiple of 8 up to 256");
        return give(stated_);
      case Opcode::AccMma:
        return mma();
      case Opcode::AccValue:
        need(0, is(0, TypeKind::acc), "an accumulator");
        return give(fragment_of(0));
      case Opcode::AccSet:
        need(0, is(0, TypeKind::acc), "an accumulator");
        need(1, type(1) == fragment_of(0), "a fragment of its shape and type");
        return give(none_type);
      case Opcode::AccScale:
        need(0, is(0, TypeKind::acc), "an accumulator");
        need(1, type(1) == Type::row_values(type(0).elem, type(0).rows), "values of its rows");
        return give(none_type);
      case Opcode::AccClear:
        need(0, is(0, TypeKind::acc), "an accumulator");
        return give(none_type);
      case Opcode::FragRow:
      case Opcode::FragCol:
        if (!stated_.is_frag() || stated_.elem != DType::index) problem("gives a fragment of index");
        return give(stated_);
      case Opcode::FragSplat:
        need(0, type(0).is_scalar(), "a scalar");
        if ((!stated_.is_frag() && !stated_.is_row_values()) || stated_.elem != type(0).elem)
          problem("gives a fragment or rows of the scalar's type");
        return give(stated_);
      case Opcode::FragSpread:
        need(0, type(0).is_row_values(), "values of rows");
        if (!stated_.is_frag() || stated_.elem != type(0).elem || stated_.rows != type(0).rows)
          problem("gives a fragment with these rows");
        return give(stated_);
      case Opcode::FragCols:
        need(0, type(0).is_frag(), "a fragment");
        if (!stated_.is_frag() || stated_.elem != type(0).elem || stated_.rows != type(0).rows || imm_ % 8 ||
            imm_ + stated_.cols > type(0).cols)
          problem("gives columns of the fragment from a multiple of 8 on");
        return give(stated_);
      case Opcode::FragFold:
        need(0, type(0).is_frag(), "a fragment");
        need(1, type(1) == Type::row_values(type(0).elem, type(0).rows), "values of its rows to fold onto");
        return give(type(1));
      case Opcode::FragPut:
        need(0, is(0, TypeKind::view), "a view");
        need(1,
             type(1).is_frag() && (dtype_size(type(1).elem) == 2 || type(1).elem == DType::f32) &&
                 type(1).elem == type(0).elem && type(1).rows == type(0).rows && type(1).cols == type(0).cols,
             "a fragment of 16-bit or f32 elements of the view's shape and type");
        return give(none_type);
      default:
        problem("has no rule");
        return give(stated_);
    }
  }

 private:
  Type type(std::size_t n) const { return k_.type(o_[n]); }
  bool is(std::size_t n, TypeKind kind) const { return type(n).kind == kind; }
  Type fragment_of(std::size_t n) const { return Type::frag(type(n).elem, type(n).rows, type(n).cols); }

  void problem(std::string_view what) {
    if (problem_.empty()) problem_ = fmt::format("{} {}", info(code_).text, what);
  }
  void need(std::size_t n, bool holds, std::string_view what) {
    if (!holds) problem(fmt::format("needs {} as operand {}; it is {}", what, n + 1, to_string(type(n))));
  }
  Inferred give(Type t) { return {t, std::move(problem_)}; }

  Inferred shared_view() {
    const Type m = type(0);
    need(0, m.is_memory() && m.space == Space::shared && m.rows != 0, "a two-dimensional shared array");
    for (std::size_t n = 1; n < 4; ++n) need(n, type(n).is_index(), "an index");
    if (stated_.kind != TypeKind::view || stated_.elem != m.elem || stated_.swizzle != m.swizzle ||
        stated_.rows > m.rows || stated_.cols > m.cols || stated_.rows == 0 || stated_.cols == 0)
      problem("gives a view of the array's type and swizzle that fits into it");
    return give(stated_);
  }

  Inferred copy(std::size_t leading) {
    if (o_.size() <= leading || o_.size() > leading + 5) {
      problem("takes 1 to 5 coordinates");
      return give(none_type);
    }
    need(0, k_.op(o_[0]).code == Opcode::Param && k_.params[k_.op(o_[0]).imm].tensor, "a tensor parameter");
    need(1, is(1, TypeKind::view) && type(1).elem == type(0).elem, "a view of the tensor's type");
    if (leading == 4) {
      need(2, is(2, TypeKind::pipe), "a pipeline");
      need(3, type(3).is_index(), "a slot");
    }
    for (std::size_t n = leading; n < o_.size(); ++n) need(n, type(n).is_index(), "a coordinate of type index");
    return give(none_type);
  }

  Inferred mma() {
    const auto m = unpack<MmaImm>(imm_);
    const Type d = type(0), a = type(1), b = type(2);
    need(0, is(0, TypeKind::acc), "an accumulator");
    need(1, is(1, TypeKind::view) || (a.is_frag() && !m.a_transposed), "a view or a fragment");
    need(2, is(2, TypeKind::view) && b.elem == a.elem, "a view of the elements of A");
    need(3, type(3) == bool_type, "a bool");
    const u32 a_rows = m.a_transposed ? a.cols : a.rows, a_cols = m.a_transposed ? a.rows : a.cols;
    const u32 b_rows = m.b_transposed ? b.cols : b.rows, b_cols = m.b_transposed ? b.rows : b.cols;
    if (a_rows != d.rows || b_cols != d.cols || a_cols != m.k || b_rows != m.k || m.k == 0)
      problem(fmt::format("multiplies [{} x {}] by [{} x {}] into [{} x {}] over {} terms", a_rows, a_cols, b_rows,
                          b_cols, d.rows, d.cols, m.k));
    const bool narrow = m.format != MmaFormat::native;
    if (narrow ? a.elem != DType::u8 : a.elem != DType::f16 && a.elem != DType::bf16)
      problem("multiplies f16, bf16, or u8 that holds e4m3 or e5m2");
    // 8-bit operands have no transposed form: both run along k in memory.
    if (narrow && (m.a_transposed || !m.b_transposed)) problem("needs 8-bit operands that run along k");
    if (dtype_size(a.elem) && m.k % (32 / dtype_size(a.elem)))
      problem(fmt::format("takes multiples of {} terms", 32 / dtype_size(a.elem)));
    return give(none_type);
  }

  const Kernel& k_;
  Opcode code_;
  std::span<const OpId> o_;
  u64 imm_;
  Type stated_;
  std::string problem_;
};
}  // namespace

Inferred infer_tier(const Kernel& k, Opcode code, std::span<const OpId> operands, u64 imm, Type stated) {
  return Rule(k, code, operands, imm, stated).run();
}

}  // namespace iron::ir
