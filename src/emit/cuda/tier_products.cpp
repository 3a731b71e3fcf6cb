// Accumulators, warpgroup products and fragments: named scalars, pins around what is in flight, straight-line batches.
#include <fmt/format.h>

#include <algorithm>

#include "emit/cuda/rows.h"
#include "emit/cuda/tier.h"

namespace iron::emit::cuda {

using ir::Opcode;
using ir::OpId;

namespace {
Tier& tier(Emitter& e) { return e.extension<Tier>(); }

std::string joined(const std::vector<std::string>& names, std::size_t from = 0, std::size_t count = ~std::size_t{0}) {
  std::string text;
  for (std::size_t i = from; i < names.size() && i - from < count; ++i) text += (text.empty() ? "" : ", ") + names[i];
  return text;
}

// Fence and wait name no registers, so arithmetic could move across them: an empty asm that "changes" the registers
// holds it (rule 4).
void pin(Emitter& e, const std::vector<std::string>& names, std::string_view type) {
  if (e.options().leave_out & no_pin) return;
  constexpr std::size_t most = 16;
  for (std::size_t at = 0; at < names.size(); at += most) {
    const std::size_t n = std::min(most, names.size() - at);
    const std::string helper = e.made(fmt::format("pin_{}_{}", type, n), [&] {
      std::string params, operands;
      for (std::size_t i = 0; i < n; ++i) {
        params += fmt::format("{}{}& r{}", i ? ", " : "", type, i);
        operands += fmt::format("{}\"+{}\"(r{})", i ? ", " : "", type == "f32" ? 'f' : 'r', i);
      }
      return fmt::format("$fn void pin_{}_{}({}) {{\n  asm volatile(\"\" : {} : : \"memory\");\n}}", type, n, params,
                         operands);
    });
    e.line(fmt::format("{}({});", helper, joined(names, at, n)));
  }
}

u32 mode_of(ir::Swizzle s) { return s == ir::Swizzle::b128 ? 1 : s == ir::Swizzle::b64 ? 2 : 3; }

/// How a product walks a view: a descriptor and what each step of k adds to its address field.
struct Walk {
  std::string descriptor;
  std::vector<u64> steps;
  bool mn_major = false;
};

// `k_along_rows`: the sum runs down the view's rows, so its rows are contiguous in M or N.
Walk walk(Emitter& e, OpId id, OpId view, bool k_along_rows, std::string_view hint) {
  const auto& k = e.kernel();
  const auto array = k.type(k.operand(view, 0)), t = k.type(view);
  if (t.swizzle == ir::Swizzle::none)
    e.refuse(id, "products read swizzled memory", "give the shared array Swizzle::b128");
  const u32 span = ir::swizzle_bytes(t.swizzle), size = dtype_size(t.elem), panel = ir::panel_cols(array);
  const u64 panel_bytes = ir::panel_bytes(array);
  if (u64{panel} * size != span)
    e.refuse(id, fmt::format("rows of {} bytes do not fill the swizzle of {}", panel * size, span),
             "use a narrower swizzle");
  Walk w;
  w.mn_major = k_along_rows;
  const u32 step = 32 / size;  // terms of one instruction
  if (k_along_rows) {
    // Eight rows of k are an atom; panels lie along M or N.
    if (t.cols % panel != 0) e.refuse(id, "a view along M or N ends inside a panel");
    for (u32 at = 0; at < t.rows; at += step) w.steps.push_back(u64{at} * span >> 4);
    w.descriptor =
        e.call("matrix", fmt::format("{}u, {}u, {}u", panel_bytes, 8 * span, mode_of(t.swizzle)), {e.value(view)}).text;
  } else {
    for (u32 at = 0; at < t.cols; at += step)
      w.steps.push_back((at / panel * panel_bytes + u64{at} % panel * size) >> 4);
    w.descriptor = e.call("matrix", fmt::format("16u, {}u, {}u", 8 * span, mode_of(t.swizzle)), {e.value(view)}).text;
  }
  w.descriptor = e.name(id, "u64", hint, raw(w.descriptor)).text;
  return w;
}

/// One wgmma of a shape, as a helper: every accumulator register is an operand (rule 1).
std::string product_helper(Emitter& e, u32 n, std::string_view type, bool a_registers, bool a_mn, bool b_mn) {
  const u32 terms = type == "f16" || type == "bf16" ? 16 : 32;
  const std::string name = fmt::format("wgmma_m64n{}k{}_{}{}{}{}", n, terms, type, a_registers ? "_ra" : "",
                                       a_mn ? "_at" : "", b_mn ? "_bn" : "");
  return e.made(name, [&] {
    const u32 count = n / 2;
    std::string params, outputs, list;
    for (u32 i = 0; i < count; ++i) {
      params += fmt::format(", f32& d{}", i);
      outputs += fmt::format("{}\"+f\"(d{})", i ? ", " : "", i);
      list += fmt::format("{}%{}", i ? ", " : "", i);
    }
    u32 next = count;
    std::string a, inputs, a_params;
    if (a_registers) {
      for (u32 i = 0; i < 4; ++i) {
        a += fmt::format("{}%{}", i ? ", " : "{", next++);
        inputs += fmt::format("\"r\"(a{}), ", i);
        a_params += fmt::format("u32 a{}, ", i);
      }
      a += "}";
    } else {
      a = fmt::format("%{}", next++), inputs = "\"l\"(a), ", a_params = "u64 a, ";
    }
    const u32 b = next++, accumulate = next++;
    std::string tail = ", 1, 1";
    if (terms == 16) tail += (a_registers ? "" : fmt::format(", {}", a_mn ? 1 : 0)) + fmt::format(", {}", b_mn ? 1 : 0);
    return fmt::format(
        "$fn void {0}({1}u64 b, i32 accumulate{2}) {{\n"
        "  asm volatile(\"{{\\n.reg .pred p;\\nsetp.ne.b32 p, %{3}, 0;\\n\"\n"
        "               \"wgmma.mma_async.sync.aligned.m64n{4}k{5}.f32.{6}.{6} {{{7}}}, {8}, %{9}, p{10};\\n}}\"\n"
        "               : {11}\n               : {12}\"l\"(b), \"r\"(accumulate) : \"memory\");\n}}",
        name, a_params, params, accumulate, n, terms, type, list, a, b, tail, outputs, inputs);
  });
}

std::string_view format_name(const ir::MmaImm& m, DType elem) {
  if (m.format == ir::MmaFormat::e4m3) return "e4m3";
  if (m.format == ir::MmaFormat::e5m2) return "e5m2";
  return dtype_name(elem);
}
std::string plus(const std::string& descriptor, u64 step) {
  return step ? fmt::format("{} + {}", descriptor, step) : descriptor;
}

bool sets(const ir::Kernel& k, OpId id, OpId acc) {
  const auto code = k.op(id).code;
  return (code == Opcode::AccMma || code == Opcode::AccSet || code == Opcode::AccScale || code == Opcode::AccClear) &&
         k.operand(id, 0) == acc;
}
}  // namespace

void enter_region(Emitter& e, ir::RegionId r) {
  if (!ir::uses_tier(e.kernel())) return;
  Tier& t = tier(e);
  const auto it = t.declared.find(r);
  if (it == t.declared.end()) return;
  for (const OpId acc : it->second) {
    auto& names = t.accs[acc];
    names = e.fresh_names("acc", t.k.type(acc).cols / 2u);
    for (std::size_t at = 0; at < names.size(); at += 16) e.line(fmt::format("f32 {};", joined(names, at, 16)));
  }
}

void acc_mma(Emitter& e, OpId id) {
  Tier& t = tier(e);
  const auto& k = e.kernel();
  const auto imm = ir::unpack<ir::MmaImm>(k.op(id).imm);
  const OpId acc = k.operand(id, 0), a = k.operand(id, 1), b = k.operand(id, 2);
  const auto& d = t.accs.at(acc);
  const auto type = format_name(imm, k.type(a).elem);
  const bool a_registers = k.type(a).is_frag();
  if (!k.location(id).file.empty()) e.line(id, "// " + std::string(k.info_of(id).text));

  const Walk right = walk(e, id, b, !imm.b_transposed, "b_matrix");
  Walk left;
  if (a_registers) {
    auto& held = t.fragments[id];
    held = e.fresh_names("a", e.registers(k.type(a)));
    for (u32 i = 0; i < held.size(); ++i) e.line(fmt::format("u32 {} = {};", held[i], e.arg(id, 1, i).text));
    pin(e, held, "u32");
  } else {
    left = walk(e, id, a, imm.a_transposed, "a_matrix");
  }
  pin(e, d, "f32");
  if (!(e.options().leave_out & no_fence)) e.line(e.call("products_begin", {}).text + ";");
  const Expr accumulate = e.arg(id, 3);
  std::string first = accumulate.literal ? (accumulate.text == "true" ? "1" : "0") : c_cast("i32", accumulate).text;
  const std::string helper = product_helper(e, k.type(acc).cols, type, a_registers, left.mn_major, right.mn_major);
  for (std::size_t step = 0; step < right.steps.size(); ++step) {
    const std::string from =
        a_registers ? joined(t.fragments[id], step * 4, 4) : plus(left.descriptor, left.steps[step]);
    e.line(fmt::format("{}({}, {}, {}, {});", helper, from, plus(right.descriptor, right.steps[step]),
                       step == 0 ? first : "1", joined(d)));
  }
  e.line(e.call("products_commit", {}).text + ";");
}

void acc_settle(Emitter& e, OpId id) {
  Tier& t = tier(e);
  e.line(id, e.call("products_settle", std::to_string(e.kernel().op(id).imm), {}).text + ";");
  std::vector<OpId> pinned;
  for (const OpId mma : t.flow.settled.at(id)) {
    const OpId acc = e.kernel().operand(mma, 0);
    if (std::find(pinned.begin(), pinned.end(), acc) == pinned.end()) {
      pinned.push_back(acc);
      pin(e, t.accs.at(acc), "f32");
    }
    if (const auto it = t.fragments.find(mma);
        it != t.fragments.end() && e.kernel().encloses(e.kernel().op(mma).region, e.kernel().op(id).region))
      pin(e, it->second, "u32");
  }
}

// The registers themselves where nothing sets them in the rest of the region, else copies.
void acc_value(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const OpId acc = k.operand(id, 0);
  const auto& ops = k.region(k.op(id).region).ops;
  bool later = false;
  for (auto it = std::find(ops.begin(), ops.end(), id) + 1; it != ops.end(); ++it) {
    later |= sets(k, *it, acc);
    for (u32 i = 0; i < k.op(*it).region_count; ++i)
      k.walk(k.region_of(*it, i), [&](OpId v) { later |= sets(k, v, acc); });
  }
  std::vector<Expr> lanes;
  for (const auto& n : tier(e).accs.at(acc)) lanes.push_back(raw(n));
  if (later)
    e.define(id, "was", lanes);
  else
    e.set(id, std::move(lanes));
}

void acc_set(Emitter& e, OpId id) {
  const auto& d = tier(e).accs.at(e.kernel().operand(id, 0));
  for (u32 i = 0; i < d.size(); ++i) e.line(id, fmt::format("{} = {};", d[i], e.arg(id, 1, i).text));
}
void acc_scale(Emitter& e, OpId id) {
  const auto& d = tier(e).accs.at(e.kernel().operand(id, 0));
  for (u32 i = 0; i < d.size(); ++i) e.line(id, fmt::format("{} *= {};", d[i], e.arg(id, 1, i / 2 % 2).text));
}
void acc_clear(Emitter& e, OpId id) {
  const auto& d = tier(e).accs.at(e.kernel().operand(id, 0));
  for (std::size_t at = 0; at < d.size(); at += 8) {
    std::string text;
    for (std::size_t i = at; i < std::min(at + 8, d.size()); ++i) text += d[i] + " = ";
    e.line(id, text + "0.0f;");
  }
}

// --- fragments
// -----------------------------------------------------------------------------------------------------------

void frag_place(Emitter& e, OpId id) {
  const bool rows = e.kernel().op(id).code == Opcode::FragRow;
  const auto index = e.type_name(DType::index);
  const Expr base = e.name(id, index, rows ? "row" : "col",
                           c_cast(index, raw(rows ? "(threadIdx.x % 128u / 32u * 16u + threadIdx.x % 32u / 4u)"
                                                  : "(threadIdx.x % 4u * 2u)")));
  std::vector<Expr> lanes;
  for (u32 i = 0; i < e.kernel().type(id).lanes; ++i) {
    const u32 offset = rows ? 8 * (i / 2 % 2) : 8 * (i / 4) + i % 2;
    lanes.push_back(offset ? binary(base, "+", raw(std::to_string(offset)), Prec::sum) : base);
  }
  e.set(id, std::move(lanes));
}
void frag_splat(Emitter& e, OpId id) { e.set(id, std::vector<Expr>(e.registers(e.kernel().type(id)), e.arg(id, 0))); }
void frag_spread(Emitter& e, OpId id) {
  std::vector<Expr> lanes;
  for (u32 i = 0; i < e.kernel().type(id).lanes; ++i) lanes.push_back(e.arg(id, 0, i / 2 % 2));
  e.set(id, std::move(lanes));
}
void frag_cols(Emitter& e, OpId id) {
  const auto t = e.kernel().type(id);
  const u32 per_col_pair = Emitter::packed(t) ? 4 : 2;  // columns of one register
  std::vector<Expr> lanes;
  for (u32 i = 0; i < e.registers(t); ++i)
    lanes.push_back(e.arg(id, 0, static_cast<u32>(e.kernel().op(id).imm) / per_col_pair + i));
  e.set(id, std::move(lanes));
}
void frag_fold(Emitter& e, OpId id) {
  static constexpr Opcode steps[] = {Opcode::Add, Opcode::Mul, Opcode::Min, Opcode::Max,
                                     Opcode::And, Opcode::Or,  Opcode::Xor};
  const auto& k = e.kernel();
  const Opcode step = steps[static_cast<std::size_t>(ir::unpack<ir::ReduceKind>(k.op(id).imm))];
  const auto t = k.type(id);
  const auto names = e.fresh_names("fold", t.lanes);
  for (u32 i = 0; i < t.lanes; ++i)
    e.line(id, fmt::format("{} {} = {};", e.type_name(t), names[i], e.arg(id, 1, i).text));
  for (u32 i = 0; i < k.type(k.operand(id, 0)).lanes; ++i) {
    const auto& n = names[i / 2 % 2];
    e.line(fmt::format("{} = {};", n, e.apply(step, t.elem, {raw(n), e.arg(id, 0, i)}).text));
  }
  std::vector<Expr> out;
  for (const auto& n : names) out.push_back(raw(n));
  e.set(id, std::move(out));
}

// Conversions into and out of packed fragments; nothing else computes on them.
void packed_op(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const OpId from = k.operand(id, 0);
  const auto to = k.type(id), t = k.type(from);
  if (k.op(id).code != Opcode::Cast || t.elem == to.elem || (t.elem != DType::f32 && to.elem != DType::f32))
    e.refuse(id, "16-bit fragments are converted from and to f32, nothing else", "compute in f32");
  const std::string word(dtype_name(to.elem == DType::f32 ? t.elem : to.elem));
  std::vector<Expr> out;
  if (Emitter::packed(to)) {
    for (u32 i = 0; i < e.registers(to); ++i)
      out.push_back(e.call("pack_" + word, {e.arg(id, 0, 2 * i), e.arg(id, 0, 2 * i + 1)}));
  } else {
    for (u32 i = 0; i < to.lanes; ++i)
      out.push_back(e.call("unpack_" + word, std::to_string(i % 2), {e.arg(id, 0, i / 2)}));
  }
  if (e.used_once_here(id))
    e.set(id, std::move(out));
  else
    e.define(id, "pair", out);
}

namespace {
// f32: each thread's pairs of neighbours, 8 bytes a store.
void put_pairs(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const OpId view = k.operand(id, 0);
  const auto array = k.type(k.operand(view, 0)), t = k.type(view);
  const u32 panel = ir::panel_cols(array), pitch = panel * dtype_size(t.elem);
  const bool swizzled = t.swizzle != ir::Swizzle::none;
  if (pitch % 8) e.refuse(id, "rows of an odd number of f32", "give the shared array an even number of columns");
  const auto row = e.name(id, "u32", "put_row", raw("threadIdx.x % 128u / 32u * 16u + threadIdx.x % 32u / 4u"));
  const auto pair = e.name(id, "u32", "put_pair", raw("threadIdx.x % 4u"));
  for (u32 col = 0; col < t.cols; col += 8) {
    const u64 base = col / panel * ir::panel_bytes(array);
    const u32 first = col % panel / 4;  // chunk of 16 bytes
    const std::string in_panel = base ? fmt::format("{} + {}u", e.value(view).text, base) : e.value(view).text;
    const Expr at =
        swizzled ? raw(fmt::format("{} + {} % 2u * 8u",
                                   e.call("chunk_at", fmt::format("{}u", pitch),
                                          {raw(in_panel), row, raw(fmt::format("{}u + {} / 2u", first, pair.text))})
                                       .text,
                                   pair.text))
                 : raw(fmt::format("{} + {} * {}u + {}u + {} * 8u", in_panel, row.text, pitch, first * 16, pair.text));
    const Expr address = e.name(id, "u32", "pair_at", at);
    for (u32 half = 0; half < 2; ++half) {  // rows 8 apart share their swizzle
      const Expr to = half ? binary(address, "+", raw(fmt::format("{}u", 8 * pitch)), Prec::sum) : address;
      e.line(id,
             e.call("store_pair", {to, e.arg(id, 1, col / 2 + 2 * half), e.arg(id, 1, col / 2 + 2 * half + 1)}).text +
                 ";");
    }
  }
}
}  // namespace

void frag_put(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const OpId view = k.operand(id, 0);
  const auto array = k.type(k.operand(view, 0)), t = k.type(view);
  if (t.elem == DType::f32) return put_pairs(e, id);
  const u32 panel = ir::panel_cols(array), pitch = panel * dtype_size(t.elem);
  if (pitch > 128) e.refuse(id, "rows wider than a swizzle", "give the shared array Swizzle::b128");
  const auto thread = e.name(id, "u32", "put_row", raw("threadIdx.x % 128u / 32u * 16u + threadIdx.x % 16u"));
  const auto half = e.name(id, "u32", "put_half", raw("threadIdx.x % 32u / 16u"));
  const bool swizzled = t.swizzle != ir::Swizzle::none;
  for (u32 col = 0; col < t.cols; col += 16) {
    const bool pair = col + 8 < t.cols;
    const u64 base = col / panel * ir::panel_bytes(array);
    const Expr at = raw(base ? fmt::format("{} + {}u", e.value(view).text, base) : e.value(view).text);
    const u32 first = col % panel / 8;
    const Expr chunk = !pair   ? raw(fmt::format("{}u", first))
                       : first ? raw(fmt::format("{}u + {}", first, half.text))
                               : half;
    const Expr address = swizzled
                             ? e.call("chunk_at", fmt::format("{}u", pitch), {at, thread, chunk})
                             : raw(fmt::format("{} + {} * {}u + ({}) * 16u", at.text, thread.text, pitch, chunk.text));
    const u32 r = col / 4;
    const auto reg = [&](u32 i) { return e.arg(id, 1, r + i); };
    e.line(id, (pair ? e.call("stmatrix_4", {address, reg(0), reg(1), reg(2), reg(3)})
                     : e.call("stmatrix_2", {address, reg(0), reg(1)}))
                       .text +
                   ";");
  }
}

}  // namespace iron::emit::cuda
