// Products of tiles by the matrix unit: mma.sync, with ldmatrix where the operands lie for it.
#include <fmt/format.h>

#include "emit/c_like/tile_layout.h"
#include "emit/cuda/rows.h"

namespace iron::emit::cuda {

using ir::OpId;

namespace {

struct Operand {
  OpId memory;
  Expr at, stride;
  bool transposed;
  bool aligned;  ///< rows start at multiples of 16 bytes in threadgroup memory
};

std::string position(const Operand& o, const std::string& major, const std::string& minor) {
  return fmt::format("{} + ({}) * {} + ({})", inside(o.at, Prec::sum, true), major,
                     inside(o.stride, Prec::product, false), minor);
}

// The element at (outer, depth) of an operand whose rows run along the depth unless it is stored the other way.
Expr element_of(Emitter& e, const Operand& o, bool rows_along_depth, const std::string& outer,
                const std::string& depth) {
  return rows::element(e, o.memory, raw(rows_along_depth ? position(o, outer, depth) : position(o, depth, outer)));
}

std::string ldmatrix(Emitter& e, u32 count, bool transposed) {
  const auto name = fmt::format("ldmatrix_x{}{}", count, transposed ? "_t" : "");
  return e.made(name, [&] {
    std::string out, to;
    for (u32 i = 0; i < count; ++i) {
      out += fmt::format("{}%{}", i ? ", " : "", i);
      to += fmt::format("{}\"=r\"(to[{}])", i ? ", " : "", i);
    }
    return fmt::format(
        "$fn void {0}(u32* to, const void* from) {{\n"
        "  asm volatile(\"ldmatrix.sync.aligned.m8n8.x{1}{2}.shared.b16 {{{3}}}, [%{1}];\" : {4} : "
        "\"r\"((u32)__cvta_generic_to_shared(from)) : \"memory\");\n}}",
        name, count, transposed ? ".trans" : "", out, to);
  });
}

// Words of a fragment from single elements: `each` neighbours along the depth a word.
std::string packed(Emitter& e, const Operand& o, bool rows_along_depth, DType input, const std::string& outer,
                   const std::string& depth) {
  std::string word;
  const u32 size = dtype_size(input), each = 4 / size;
  for (u32 i = 0; i < each; ++i) {
    const Expr v = element_of(e, o, rows_along_depth, outer, i ? fmt::format("{} + {}u", depth, i) : depth);
    const auto bits =
        fmt::format("(u32)({}){}", e.type_name(size == 2 ? DType::u16 : DType::u8), rows::to_bits(e, v, input).text);
    word += i ? fmt::format(" | {} << {}", bits, i * size * 8) : bits;
  }
  return word;
}

std::string_view ptx_type(DType t) {
  switch (t) {
    case DType::f16:
      return "f16";
    case DType::bf16:
      return "bf16";
    case DType::i8:
      return "s8";
    default:
      return "u8";
  }
}

std::string mma(Emitter& e, DType input, DType elem, u32 depth) {
  const auto in = ptx_type(input);
  const bool integer = elem == DType::i32;
  const auto name = fmt::format("mma_{}", in);
  return e.made(name, [&] {
    const auto type = e.type_name(elem);
    const char c = integer ? 'r' : 'f';
    return fmt::format(
        "$fn void {0}({1}* c, const u32* a, const u32* b) {{\n"
        "  asm volatile(\"mma.sync.aligned.m16n8k{2}.row.col.{3}.{4}.{4}.{3} {{%0, %1, %2, %3}}, {{%4, %5, %6, %7}}, "
        "{{%8, %9}}, "
        "{{%0, %1, %2, %3}};\"\n"
        "               : \"+{5}\"(c[0]), \"+{5}\"(c[1]), \"+{5}\"(c[2]), \"+{5}\"(c[3])\n"
        "               : \"r\"(a[0]), \"r\"(a[1]), \"r\"(a[2]), \"r\"(a[3]), \"r\"(b[0]), \"r\"(b[1]));\n}}",
        name, type, depth, integer ? "s32" : "f32", in, c);
  });
}

}  // namespace

namespace {
// The fragments of one step, from depth k on, into a_part and b_part of a set.
void load_fragments(Emitter& e, const TileLayout& t, const Operand& a, const Operand& b, const std::string& set) {
  const auto each = 4 / dtype_size(t.input);
  e.line("#pragma unroll");
  e.open(fmt::format("for (u32 i = 0; i < {}u; ++i) {{", t.own_rows));
  if (a.aligned) {
    // Four 8 x 8 matrices: rows 0 and 8 at depth 0, then at depth 8; each lane gives the address of one row.
    const auto at = a.transposed
                        ? position(a, "k + lane / 16u * 8u + lane % 8u", "row_at + i * 16u + lane / 8u % 2u * 8u")
                        : position(a, "row_at + i * 16u + lane % 16u", "k + lane / 16u * 8u");
    e.line(fmt::format("{}(a_part{}[i], {} + ({}));", ldmatrix(e, 4, a.transposed), set, e.value(a.memory).text, at));
  } else {
    for (u32 w = 0; w < 4; ++w)
      e.line(
          fmt::format("a_part{}[i][{}] = {};", set, w,
                      packed(e, a, !a.transposed, t.input, fmt::format("row_at + i * 16u + lane / 4u + {}u", w % 2 * 8),
                             fmt::format("k + lane % 4u * {}u + {}u", each, w / 2 * t.unit.k / 2))));
  }
  e.close();
  // Four matrices an instruction where two of the unit's columns stand side by side.
  const bool pairs = b.aligned && t.own_cols % 2 == 0;
  e.line("#pragma unroll");
  e.open(fmt::format("for (u32 j = 0; j < {}u; j += {}u) {{", t.own_cols, pairs ? 2 : 1));
  if (b.aligned) {
    const std::string next = pairs ? " + lane / 16u * 8u" : "";
    const auto at = b.transposed ? position(b, "col_at + j * 8u + lane % 8u" + next, "k + lane / 8u % 2u * 8u")
                                 : position(b, "k + lane % 16u", "col_at + j * 8u" + next);
    e.line(fmt::format("{}(b_part{}[j], {} + ({}));", ldmatrix(e, pairs ? 4 : 2, !b.transposed), set,
                       e.value(b.memory).text, at));
  } else {
    for (u32 w = 0; w < 2; ++w)
      e.line(fmt::format("b_part{}[j][{}] = {};", set, w,
                         packed(e, b, b.transposed, t.input, "col_at + j * 8u + lane / 4u",
                                fmt::format("k + lane % 4u * {}u + {}u", each, w * t.unit.k / 2))));
  }
  e.close();
}
}  // namespace

// Row and column of a fragment's elements, in the numbering of PTX: lane / 4 and lane % 4 as the two coordinates.
void matrix_product(Emitter& e, OpId id, const TileLayout& t) {
  const auto& k = e.kernel();
  const auto layout = ir::unpack<ir::LayoutImm>(k.op(id).imm);
  const auto operand = [&](u32 first, bool transposed) {
    return Operand{k.operand(id, first), e.arg(id, first + 1), e.arg(id, first + 2), transposed,
                   dtype_size(t.input) == 2 &&
                       rows_aligned(e, k.operand(id, first), k.operand(id, first + 1), k.operand(id, first + 2), 16)};
  };
  const Operand a = operand(1, layout.a_transposed), b = operand(4, layout.b_transposed);
  e.open("{");
  e.line(id, fmt::format("const u32 lane = {}, simdgroup = {};", t.lane(), t.simdgroup()));
  e.line(fmt::format("const u32 row_at = simdgroup / {0}u * {1}u, col_at = simdgroup % {0}u * {2}u;", t.across,
                     t.own_rows * t.unit.m, t.own_cols * t.unit.n));
  // Where both lie for ldmatrix, the next step's fragments are on their way while this one's are multiplied.
  const u32 steps = layout.k / t.unit.k;
  const bool ahead = a.aligned && b.aligned && steps > 1 && steps <= 4;
  const std::string set = ahead ? fmt::format("[k / {}u % 2u]", t.unit.k) : "";
  const auto declare = [&] {
    const auto sets = ahead ? "[2]" : "";
    e.line(fmt::format("u32 a_part{0}[{1}][4], b_part{0}[{2}][2];", sets, t.own_rows, t.own_cols));
  };
  const auto load_step = [&](const std::string& at) {
    e.open("{");
    e.line(fmt::format("const u32 k = {};", at));
    load_fragments(e, t, a, b, set);
    e.close();
  };
  if (ahead) declare(), load_step("0");
  e.line(steps <= 4 ? "#pragma unroll" : "#pragma unroll 2");
  e.open(fmt::format("for (u32 k = 0; k < {}u; k += {}u) {{", layout.k, t.unit.k));
  if (ahead) {
    e.open(fmt::format("if (k + {}u < {}u) {{", t.unit.k, layout.k));
    e.line(fmt::format("const u32 after = k + {}u;", t.unit.k));
    load_step("after");
    e.close();
  } else {
    declare();
    load_fragments(e, t, a, b, set);
  }
  e.line("#pragma unroll");
  e.open(fmt::format("for (u32 f = 0; f < {}u; ++f) {{", t.own_rows * t.own_cols));
  e.line(fmt::format("{}(&{}[f * 4u], a_part{}[f / {}u], b_part{}[f % {}u]);", mma(e, t.input, t.elem, t.unit.k),
                     t.name, set, t.own_cols, set, t.own_cols));
  e.close();
  e.close();
  e.close();
}

}  // namespace iron::emit::cuda
