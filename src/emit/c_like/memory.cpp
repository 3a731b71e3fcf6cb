// Rows of memory: arrays, views, loads and stores, with vectors as single transactions where the alignment is known.
#include <fmt/format.h>

#include <algorithm>

#include "emit/c_like/rows.h"
#include "ir/tier.h"

namespace iron::emit::rows {

using ir::Opcode;
using ir::OpId;

namespace {
std::string name_of(Emitter& e, OpId mem) {
  const auto& k = e.kernel();
  const OpId root = ir::memory_root(k, mem);
  return k.op(root).code == Opcode::Param ? e.param_name(static_cast<u32>(k.op(root).imm)) : e.value(root).text;
}

// The bytes that one transaction may move: what the op states, at least one element.
u32 transaction(Emitter& e, OpId id, u32 lanes) {
  const auto t = e.kernel().type(e.kernel().operand(id, 0));
  const u32 size = dtype_size(t.elem);
  if (t.swizzle != ir::Swizzle::none && lanes > 1 && size * lanes > 16)
    return size;  // a 16-byte chunk stays whole, no more
  const u32 stated = 1u << ir::unpack<ir::MemoryImm>(e.kernel().op(id).imm).align_log2;
  return std::min({std::max(stated, size), 16u, size * lanes});
}
bool streams(Emitter& e, OpId id) {
  return ir::unpack<ir::MemoryImm>(e.kernel().op(id).imm).cache == ir::CachePolicy::stream &&
         e.kernel().type(e.kernel().operand(id, 0)).space == ir::Space::global;
}
Expr plus(const Expr& index, u32 offset) {
  return offset == 0 ? index : binary(index, "+", raw(fmt::format("{}", offset)), Prec::sum);
}
// Copies and products see this array through views.
bool viewed(const Emitter& e, OpId mem) {
  const auto& users = e.users(mem);
  return std::any_of(users.begin(), users.end(),
                     [&](OpId use) { return e.kernel().op(use).code == Opcode::SharedView; });
}
// Row, column and slot first, then the panel that copies put them in, then the swizzle (D13).
Expr place(Emitter& e, OpId mem, const Expr& position) {
  const auto t = e.kernel().type(mem);
  if (t.swizzle == ir::Swizzle::none) return position;
  const u32 panel = ir::panel_cols(t);
  const Expr index = viewed(e, mem) && panel < t.cols
                         ? e.call("in_panels", fmt::format("{}, {}, {}", t.rows, t.cols, panel), {position})
                         : position;
  const int chunks = t.swizzle == ir::Swizzle::b128 ? 8 : t.swizzle == ir::Swizzle::b64 ? 4 : 2;
  return e.call("swizzled", fmt::format("{}, {}", dtype_size(t.elem), chunks), {index});
}
std::string vec_type(Emitter& e, DType elem, u32 count) {
  e.need("Vec");
  return fmt::format("Vec<{}, {}, {}>", e.type_name(elem), count, count * dtype_size(elem));
}
// Pieces of a vector access: each is one transaction of `count` elements.
std::string piece_pointer(Emitter& e, OpId mem, const Expr& index, u32 count, bool constant) {
  const auto t = e.kernel().type(mem);
  const Expr base = raw(e.value(mem).text);
  const Expr at = binary(base, "+", place(e, mem, index), Prec::sum);
  (void)t;
  return fmt::format("({}{}*)({})", constant ? "const " : "", vec_type(e, e.kernel().type(mem).elem, count), at.text);
}
}  // namespace

Expr element(Emitter& e, OpId mem, const Expr& index) { return subscript(e.value(mem), place(e, mem, index)); }

void shared_new(Emitter& e, OpId id) {
  const auto& op = e.kernel().op(id);
  const bool swizzled = op.type.swizzle != ir::Swizzle::none;
  u64 count = op.imm;
  if (swizzled)
    count = (count * dtype_size(op.type.elem) + 127) / 128 * 128 / dtype_size(op.type.elem);  // whole rows of chunks
  // Copies take a place that is a multiple of 128 bytes.
  e.set(id, {raw(e.shared(id, "tile", op.type.elem, count, swizzled ? 1024 : viewed(e, id) ? 128 : 16))});
}

void array_new(Emitter& e, OpId id) {
  const auto& op = e.kernel().op(id);
  const std::string n = e.fresh("local");
  e.line(id, fmt::format("{} {}[{}];", e.type_name(op.type), n, op.imm));
  e.set(id, {raw(n)});
}

// View and SharedAlias: another typed pointer into the same memory.
void view(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const auto t = k.type(id);
  const OpId mem = k.operand(id, 0);
  const bool constant = e.read_only(mem);
  const std::string pointer = e.dialect().pointer(t.space, t.elem, constant),
                    bytes = e.dialect().pointer(t.space, DType::u8, constant);
  std::string base = e.value(mem).text;
  if (k.op(id).imm) base = fmt::format("(({}){} + {})", bytes, base, k.op(id).imm);
  const std::string n = e.fresh(fmt::format("{}_as_{}", name_of(e, mem), dtype_name(t.elem)));
  e.line(id, fmt::format("{} const {} = ({}){};", pointer, n, pointer, base));
  e.set(id, {raw(n)});
}

namespace {
bool in_words(DType t, u32 count) { return is_float(t) && dtype_size(t) == 2 && count % 2 == 0; }
std::string words_pointer(Emitter& e, OpId mem, const Expr& index, u32 count, bool constant) {
  const Expr at = binary(raw(e.value(mem).text), "+", place(e, mem, index), Prec::sum);
  return fmt::format("({}{}*)({})", constant ? "const " : "", vec_type(e, DType::u32, count / 2), at.text);
}
// The elements of a piece that lies in words, and the words.
void halves(Emitter& e, const std::string& piece, DType elem, u32 count, std::vector<Expr>& lanes,
            std::vector<Expr>& words) {
  for (u32 lane = 0; lane < count; ++lane) {
    const std::string word = fmt::format("{}.e[{}]", piece, lane / 2);
    if (lane % 2 == 0) words.push_back(raw(word));
    lanes.push_back(from_bits(e, raw(word + (lane % 2 ? " >> 16" : "")), elem));
  }
}
void vector_load(Emitter& e, OpId id, std::vector<Expr>& lanes) {
  const auto& k = e.kernel();
  const OpId mem = k.operand(id, 0);
  const auto t = k.type(id);
  const u32 count = std::max(1u, transaction(e, id, t.lanes) / dtype_size(t.elem));
  const Expr index = e.arg(id, 1);
  if (count == 1) {
    for (u32 lane = 0; lane < t.lanes; ++lane) lanes.push_back(element(e, mem, plus(index, lane)));
    return;
  }
  // Pairs of 16-bit floats arrive as words: the upper one widens by one mask, where a half of its own takes a move and
  // a shift, and a copy moves the words on.
  const bool words = in_words(t.elem, count);
  std::vector<Expr> whole;
  for (u32 first = 0; first < t.lanes; first += count) {
    if (words) {
      const std::string type = vec_type(e, DType::u32, count / 2);
      const std::string pointer = words_pointer(e, mem, plus(index, first), count, true);
      const Expr value = streams(e, id) ? e.call("load_stream", {raw(pointer)}) : raw("*" + pointer);
      const Expr piece = e.name(id, type, name_of(e, mem) + "_vec", value);
      halves(e, piece.text, t.elem, count, lanes, whole);
      continue;
    }
    const std::string pointer = piece_pointer(e, mem, plus(index, first), count, true);
    const Expr value = streams(e, id) ? e.call("load_stream", {raw(pointer)}) : raw("*" + pointer);
    const Expr piece = e.name(id, vec_type(e, t.elem, count), name_of(e, mem) + "_vec", value);
    for (u32 lane = 0; lane < count; ++lane) lanes.push_back(raw(fmt::format("{}.e[{}]", piece.text, lane)));
  }
  if (words) e.set_words(id, std::move(whole));
}
// Under its condition in one transaction: a variable that holds the other value until then.
void guarded_vector_load(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const OpId mem = k.operand(id, 0);
  const auto t = k.type(id);
  const bool words = in_words(t.elem, t.lanes);
  const std::string type = words ? vec_type(e, DType::u32, t.lanes / 2) : vec_type(e, t.elem, t.lanes);
  std::string other;
  for (u32 lane = 0; lane < t.lanes; lane += words ? 2 : 1) {
    const Expr& v = e.arg(id, 3, lane);
    other += lane ? ", " : "";
    other += words ? fmt::format("(u32){} | (u32){} << 16", to_bits(e, v, t.elem).text,
                                 to_bits(e, e.arg(id, 3, lane + 1), t.elem).text)
                   : (dtype_size(t.elem) < 4 && is_int(t.elem) ? c_cast(e.type_name(t), v) : v).text;
  }
  const std::string piece = e.fresh(name_of(e, mem) + "_vec");
  const std::string pointer =
      words ? words_pointer(e, mem, e.arg(id, 1), t.lanes, true) : piece_pointer(e, mem, e.arg(id, 1), t.lanes, true);
  const std::string value = streams(e, id) ? e.call("load_stream", {raw(pointer)}).text : "*" + pointer;
  e.line(id, fmt::format("{} {} = {{{}}};", type, piece, other));
  e.line(fmt::format("if ({}) {} = {};", e.arg(id, 2).text, piece, value));
  std::vector<Expr> lanes, whole;
  if (words) {
    halves(e, piece, t.elem, t.lanes, lanes, whole);
    e.set_words(id, std::move(whole));
  } else
    for (u32 lane = 0; lane < t.lanes; ++lane) lanes.push_back(raw(fmt::format("{}.e[{}]", piece, lane)));
  e.set(id, std::move(lanes));
}
Expr scalar_load(Emitter& e, OpId id) {
  const OpId mem = e.kernel().operand(id, 0);
  const Expr place_of = element(e, mem, e.arg(id, 1));
  return streams(e, id) ? e.call("load_stream", {unary("&", place_of)}) : place_of;
}
// Copies go from memory to memory: no register holds their value.
bool only_copied(const Emitter& e, OpId id) {
  const auto& users = e.users(id);
  return e.options().async_copies && !users.empty() && std::all_of(users.begin(), users.end(), [&](OpId use) {
           return e.kernel().op(use).code == Opcode::CopyAsync;
         });
}
std::string value_name(Emitter& e, OpId mem) { return name_of(e, mem) + "_at"; }
}  // namespace

void load(Emitter& e, OpId id) {
  if (only_copied(e, id)) return;
  const auto t = e.kernel().type(id);
  const OpId mem = e.kernel().operand(id, 0);
  if (t.lanes == 1) return e.define(id, value_name(e, mem), {scalar_load(e, id)});
  std::vector<Expr> lanes;
  vector_load(e, id, lanes);
  if (lanes[0].text.find(".e[") != std::string::npos) return e.set(id, std::move(lanes));
  e.define(id, value_name(e, mem), lanes);
}

void load_or(Emitter& e, OpId id) {
  if (only_copied(e, id)) return;
  const auto t = e.kernel().type(id);
  const OpId mem = e.kernel().operand(id, 0);
  if (t.lanes == 1) {
    const Expr out = ternary(e.arg(id, 2), scalar_load(e, id), e.arg(id, 3));
    return e.define(id, value_name(e, mem),
                    {dtype_size(t.elem) < 4 && is_int(t.elem) ? c_cast(e.type_name(t), out) : out});
  }
  if (transaction(e, id, t.lanes) == t.lanes * dtype_size(t.elem)) return guarded_vector_load(e, id);
  std::vector<Expr> variables;
  for (u32 lane = 0; lane < t.lanes; ++lane) {
    variables.push_back(raw(e.fresh(value_name(e, mem))));
    e.line(id, fmt::format("{} {} = {};", e.type_name(t), variables.back().text, e.arg(id, 3, lane).text));
  }
  e.open(fmt::format("if ({}) {{", e.arg(id, 2).text));
  std::vector<Expr> lanes;
  vector_load(e, id, lanes);
  for (u32 lane = 0; lane < t.lanes; ++lane) e.line(fmt::format("{} = {};", variables[lane].text, lanes[lane].text));
  e.close();
  e.set(id, std::move(variables));
}

void store(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const OpId mem = k.operand(id, 0);
  const auto t = k.type(k.operand(id, 2));
  const Expr index = e.arg(id, 1);
  const u32 count = t.lanes == 1 ? 1 : std::max(1u, transaction(e, id, t.lanes) / dtype_size(t.elem));
  if (count == 1) {
    for (u32 lane = 0; lane < t.lanes; ++lane) {
      const Expr to = element(e, mem, plus(index, lane));
      if (streams(e, id)) {
        // The value may be a literal of another C type.
        const auto pointee = e.type_name(t);
        e.line(id, e.call("store_stream", pointee, {unary("&", to), e.arg(id, 2, lane)}).text + ";");
      } else
        e.line(id, fmt::format("{} = {};", to.text, e.arg(id, 2, lane).text));
    }
    return;
  }
  const auto* words = in_words(t.elem, count) ? e.words(k.operand(id, 2)) : nullptr;
  for (u32 first = 0; first < t.lanes; first += count) {
    std::string parts;
    if (words) {
      for (u32 lane = 0; lane < count; lane += 2) parts += (lane ? ", " : "") + (*words)[(first + lane) / 2].text;
      const std::string type = vec_type(e, DType::u32, count / 2), value = fmt::format("{}{{{}}}", type, parts),
                        pointer = words_pointer(e, mem, plus(index, first), count, false);
      e.line(id, streams(e, id) ? e.call("store_stream", type, {raw(pointer), raw(value)}).text + ";"
                                : fmt::format("*{} = {};", pointer, value));
      continue;
    }
    for (u32 lane = 0; lane < count; ++lane) {
      const Expr& part = e.arg(id, 2, first + lane);
      parts += (lane ? ", " : "") +
               (dtype_size(t.elem) < 4 && is_int(t.elem) ? c_cast(e.type_name(t), part).text : part.text);
    }
    const std::string type = vec_type(e, t.elem, count),
                      pointer = piece_pointer(e, mem, plus(index, first), count, false);
    const std::string value = fmt::format("{}{{{}}}", type, parts);
    e.line(id, streams(e, id) ? e.call("store_stream", type, {raw(pointer), raw(value)}).text + ";"
                              : fmt::format("*{} = {};", pointer, value));
  }
}

}  // namespace iron::emit::rows
