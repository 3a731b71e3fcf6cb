// IR text, written.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/text.h"

namespace iron::ir {

std::string to_string(Type t) {
  const auto shape = [&] {
    if (!t.rows && !t.cols) return std::string{};
    static constexpr std::string_view swizzles[] = {"", ", b32", ", b64", ", b128"};
    return fmt::format("[{} x {}{}]", t.rows, t.cols, swizzles[static_cast<int>(t.swizzle)]);
  };
  switch (t.kind) {
    case TypeKind::none:
      return "none";
    case TypeKind::value:
      if (t.is_frag()) return fmt::format("frag {}{}", dtype_name(t.elem), shape());
      if (t.is_row_values()) return fmt::format("rows {}[{}]", dtype_name(t.elem), t.rows);
      return t.lanes == 1 ? std::string(dtype_name(t.elem)) : fmt::format("{}x{}", dtype_name(t.elem), t.lanes);
    case TypeKind::memory: {
      static constexpr std::string_view spaces[] = {"none", "global", "shared", "thread"};
      return fmt::format("{} {}{}", spaces[static_cast<int>(t.space)], dtype_name(t.elem), shape());
    }
    case TypeKind::tile:
      return fmt::format("tile {}{}", dtype_name(t.elem), shape());
    case TypeKind::view:
      return fmt::format("view {}{}", dtype_name(t.elem), shape());
    case TypeKind::acc:
      return fmt::format("acc {}{}", dtype_name(t.elem), shape());
    case TypeKind::pipe:
      return "pipe";
    case TypeKind::turn:
      return "turn";
  }
  return "none";
}

std::string value_text(DType elem, u64 bits) {
  switch (elem) {
    case DType::boolean:
      return bits & 1 ? "true" : "false";
    case DType::i8:
      return fmt::format("{}", static_cast<i8>(bits));
    case DType::i16:
      return fmt::format("{}", static_cast<i16>(bits));
    case DType::i32:
      return fmt::format("{}", static_cast<i32>(bits));
    case DType::i64:
    case DType::index:
      return fmt::format("{}", static_cast<i64>(bits));
    case DType::u8:
    case DType::u16:
    case DType::u32:
    case DType::u64:
      return fmt::format("{}", bits);
    case DType::f16:
      return fmt::format("{}", f16_bits_to_f32(static_cast<u16>(bits)));
    case DType::bf16:
      return fmt::format("{}", std::bit_cast<f32>(static_cast<u32>(bits) << 16));
    case DType::f32:
      return fmt::format("{}", std::bit_cast<f32>(static_cast<u32>(bits)));
    case DType::f64:
      return fmt::format("{}", std::bit_cast<f64>(bits));
    case DType::none:
      break;
  }
  return "?";
}

std::string value_text(Type type, std::span<const u64> elements) {
  if (type.lanes == 1) return value_text(type.elem, elements[0]);
  std::string out;
  for (u32 e = 0; e < type.lanes; ++e) out += (e ? ", " : "(") + value_text(type.elem, elements[e]);
  return out + ")";
}

std::string fill_places(std::string_view text, std::span<const std::string> values) {
  std::string out;
  for (const auto& v : values) {
    const auto place = text.find("{}");
    if (place == std::string_view::npos) {
      out.append(text).append(" ").append(v);
      text = {};
    } else {
      out.append(text.substr(0, place)).append(v);
      text.remove_prefix(place + 2);
    }
  }
  return out.append(text);
}

namespace {

// The shortest decimal that reads back to the same bits; NaNs by their bits, since a move keeps them.
std::string literal(DType elem, u64 bits) {
  std::string s = value_text(elem, bits);
  if (!is_float(elem)) return s;
  if (s.find("nan") != std::string::npos) return fmt::format("nan({:#x})", bits);
  if (s.find_first_of(".en") == std::string::npos) s += ".0";
  return s;
}

std::string quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else
      out += c;
  }
  return out + '"';
}

class Printer {
 public:
  Printer(const Kernel& k, PrintOptions options) : k_(k), options_(options), names_(k.op_capacity(), none) {}

  std::string kernel() {
    out_ = fmt::format("kernel @{}(", k_.name);
    for (std::size_t i = 0; i < k_.params.size(); ++i) {
      const auto& p = k_.params[i];
      out_ += fmt::format("{}%{}: {} {}{}", i ? ", " : "", p.name, name(p.kind), p.tensor ? "tensor " : "",
                          dtype_name(p.elem));
    }
    out_ += fmt::format(") {} {}", name(k_.mode), name(k_.numerics));
    if (k_.width_generic) out_ += " width_generic";
    if (!k_.spec.empty()) out_ += " spec " + quoted(k_.spec);
    out_ += " {\n";
    const auto head = out_.size();
    region(k_.body(), 1);
    out_ += "}\n";
    // Only files that some printed location names, as a parser will find them: constants are printed without theirs.
    std::string table;
    for (std::size_t i = 0; i < files_.size(); ++i) table += fmt::format("  file {} {}\n", i, quoted(files_[i]));
    out_.insert(head, table);
    return std::move(out_);
  }

  std::string single(OpId id) {
    options_.locations = false;
    op_head(id);
    return std::move(out_);
  }

 private:
  std::string value(OpId id) {
    const auto& op = k_.op(id);
    if (op.code == Opcode::Param) return "%" + k_.params[op.imm].name;
    if (op.code == Opcode::Const) {
      auto text = literal(op.type.elem, op.imm);
      if (op.type == index_type || op.type == bool_type) return text;
      return text + ":" + to_string(op.type);
    }
    if (names_[id] == none) return fmt::format("%op{}", id);  // only in messages about broken kernels
    return fmt::format("%{}", names_[id]);
  }
  std::string define(OpId id) {
    if (names_[id] == none) names_[id] = next_++;
    return fmt::format("%{}", names_[id]);
  }

  std::string imm(OpId id) {
    const auto& op = k_.op(id);
    switch (k_.info_of(id).imm) {
      case ImmKind::U32:
      case ImmKind::Length:
        return fmt::format("<{}>", op.imm);
      case ImmKind::Axis:
        return fmt::format("<{}>", "xyz"[op.imm]);
      case ImmKind::Memory: {
        const auto m = unpack<MemoryImm>(op.imm);
        std::string s;
        if (m.align_log2) s = fmt::format("align {}", 1u << m.align_log2);
        if (m.cache != CachePolicy::normal) s += fmt::format("{}{}", s.empty() ? "" : ", ", name(m.cache));
        return s.empty() ? s : "<" + s + ">";
      }
      case ImmKind::Atomic: {
        const auto a = unpack<AtomicImm>(op.imm);
        return fmt::format("<{}, {}, {}>", name(a.kind), name(a.order), name(a.scope));
      }
      case ImmKind::Wait: {
        const auto w = unpack<WaitImm>(op.imm);
        return fmt::format("<{}, {}>", name(w.compare), name(w.scope));
      }
      case ImmKind::Signs: {
        const auto s = unpack<SignsImm>(op.imm);
        return fmt::format("<{}, {}>", s.a_signed ? "signed" : "unsigned", s.b_signed ? "signed" : "unsigned");
      }
      case ImmKind::Reduce:
        return fmt::format("<{}>", name(unpack<ReduceKind>(op.imm)));
      case ImmKind::Scan: {
        const auto s = unpack<ScanImm>(op.imm);
        return fmt::format("<{}{}>", name(s.kind), s.exclusive ? ", exclusive" : "");
      }
      case ImmKind::ScopeOf:
        return fmt::format("<{}>", name(unpack<Scope>(op.imm)));
      case ImmKind::Text:
      case ImmKind::Roles:
        return " " + quoted(k_.texts[op.imm]);
      case ImmKind::Tile: {
        const auto t = unpack<TileImm>(op.imm);
        return fmt::format("<{}, {}>", dtype_name(t.input), name(t.scope));
      }
      case ImmKind::Layout: {
        const auto l = unpack<LayoutImm>(op.imm);
        return fmt::format("<{}{}{}>", l.k, l.a_transposed ? ", at" : "", l.b_transposed ? ", bt" : "");
      }
      case ImmKind::Mma: {
        const auto m = unpack<MmaImm>(op.imm);
        return fmt::format("<{}{}{}{}>", m.k, m.format == MmaFormat::native ? "" : fmt::format(", {}", name(m.format)),
                           m.a_transposed ? ", at" : "", m.b_transposed ? ", bt" : "");
      }
      case ImmKind::Copy: {
        const auto c = unpack<CopyImm>(op.imm);
        std::string s = c.multicast ? "multicast" : "";
        if (c.cache != CachePolicy::normal) s += fmt::format("{}{}", s.empty() ? "" : ", ", name(c.cache));
        return s.empty() ? s : "<" + s + ">";
      }
      case ImmKind::None:
      case ImmKind::Bits:
      case ImmKind::Param:
      case ImmKind::Until:
        break;
    }
    return {};
  }

  void location(OpId id) {
    const auto& l = k_.location(id);
    if (!options_.locations || !l.line) return;
    const auto file = std::find(files_.begin(), files_.end(), l.file) - files_.begin();
    if (file == std::ssize(files_)) files_.push_back(l.file);
    out_ += file == 0 ? fmt::format(" !{}", l.line) : fmt::format(" !{}:{}", file, l.line);
  }

  void result_types(const std::vector<OpId>& results) {
    for (std::size_t i = 0; i < results.size(); ++i)
      out_ += fmt::format("{}{}", i ? ", " : " : ", to_string(k_.type(results[i])));
  }
  void result_names(const std::vector<OpId>& results) {
    for (std::size_t i = 0; i < results.size(); ++i) out_ += fmt::format("{}{}", i ? ", " : "", define(results[i]));
    if (!results.empty()) out_ += " = ";
  }

  // The op up to its regions.
  void op_head(OpId id) {
    const auto& op = k_.op(id);
    const auto& i = k_.info_of(id);
    const auto o = k_.operands(id);
    if (op.code == Opcode::For) {
      const auto results = k_.alive(id) ? k_.results(id) : std::vector<OpId>{};
      result_names(results);
      const auto& args = k_.region(k_.region_of(id, 0)).args;
      out_ += fmt::format("for {} = {} to {} step {}", define(args[0]), value(o[0]), value(o[1]), value(o[2]));
      if (args.size() > 1) {
        out_ += " carry(";
        for (std::size_t n = 1; n < args.size(); ++n)
          out_ += fmt::format("{}{} = {}", n > 1 ? ", " : "", define(args[n]), value(o[n + 2]));
        out_ += ")";
      }
      if (const auto u = unpack<UntilImm>(op.imm); u.carried_plus_one)
        out_ += fmt::format(" until({})", u.carried_plus_one - 1);
      result_types(results);
      return;
    }
    if (op.region_count) {
      const auto results = k_.alive(id) ? k_.results(id) : std::vector<OpId>{};
      result_names(results);
      out_ += i.text;
      out_ += imm(id);
      for (const OpId v : o) out_ += " " + value(v);
      result_types(results);
      return;
    }
    const bool has_result = op.type.kind != TypeKind::none;
    if (has_result) out_ += fmt::format("{} = ", define(id));
    out_ += i.text;
    out_ += imm(id);
    std::size_t n = 0;
    // Memory and its subscript read as one: %x[%i].
    if (o.size() >= 2 && k_.type(o[0]).is_memory() && k_.type(o[1]).is_index()) {
      out_ += fmt::format(" {}[{}]", value(o[0]), value(o[1]));
      n = 2;
    }
    for (; n < o.size(); ++n) out_ += fmt::format("{}{}", n ? ", " : " ", value(o[n]));
    if (has_result) out_ += " : " + to_string(op.type);
  }

  void region(RegionId r, int depth) {
    const std::string indent(static_cast<std::size_t>(depth) * 2, ' ');
    for (const OpId id : k_.region(r).ops) {
      const auto& op = k_.op(id);
      if (op.code == Opcode::Param || op.code == Opcode::Const || op.code == Opcode::Result) continue;
      if (op.code == Opcode::Yield && op.operand_count == 0) continue;  // implied
      out_ += indent;
      op_head(id);
      if (op.region_count) {
        u32 shown = op.region_count;
        if (op.code == Opcode::If && else_is_empty(id)) shown = 1;
        for (u32 i = 0; i < shown; ++i) {
          out_ += i == 0 ? " {" : " else {";
          if (i == 0) location(id);
          out_ += "\n";
          region(k_.region_of(id, i), depth + 1);
          out_ += indent + "}";
        }
        out_ += "\n";
        continue;
      }
      location(id);
      out_ += "\n";
    }
  }

  bool else_is_empty(OpId id) const {
    const auto& ops = k_.region(k_.region_of(id, 1)).ops;
    return std::all_of(ops.begin(), ops.end(), [&](OpId v) {
      return k_.op(v).code == Opcode::Const || (k_.op(v).code == Opcode::Yield && k_.op(v).operand_count == 0);
    });
  }

  const Kernel& k_;
  PrintOptions options_;
  std::vector<u32> names_;
  u32 next_ = 0;
  std::vector<std::string> files_;
  std::string out_;
};
}  // namespace

std::string print(const Kernel& k, PrintOptions options) { return Printer(k, options).kernel(); }
std::string print_op(const Kernel& k, OpId id) { return Printer(k, {}).single(id); }

std::string identity(const Kernel& k) {
  Kernel c = canonical(k);
  for (std::size_t i = 0; i < c.params.size(); ++i) c.params[i].name = fmt::format("p{}", i);
  return print(c, {.locations = false});
}

}  // namespace iron::ir
