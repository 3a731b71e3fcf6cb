// CUDA rows of atomics, waits and fences as inline PTX with order and scope; and of text from the device.
#include <fmt/format.h>

#include "emit/cuda/rows.h"

namespace iron::emit::cuda {

using ir::AtomicKind;
using ir::MemoryOrder;
using ir::Opcode;
using ir::OpId;
using ir::Scope;

namespace {
std::string_view scope_word(Scope s) {
  switch (s) {
    case Scope::cluster:
      return "cluster";
    case Scope::grid:
      return "gpu";
    default:
      return "cta";
  }
}
std::string_view raw_type(u32 size) { return size == 1 ? "u8" : size == 2 ? "u16" : size == 4 ? "u32" : "u64"; }
char constraint(DType t) {
  if (t == DType::f32) return 'f';
  if (t == DType::f64) return 'd';
  return dtype_size(t) == 8 ? 'l' : dtype_size(t) == 2 ? 'h' : 'r';
}
DType element(Emitter& e, OpId id) { return e.kernel().type(e.kernel().operand(id, 0)).elem; }
// The address of mem[index] as a pointer to its element.
std::string address(Emitter& e, OpId id) {
  return fmt::format("({}*)&{}", e.type_name(element(e, id)),
                     rows::element(e, e.kernel().operand(id, 0), e.arg(id, 1)).text);
}

std::string cas_helper(Emitter& e, u32 size, MemoryOrder order, Scope scope) {
  const std::string name = fmt::format("atomic_cas_u{}_{}_{}", size * 8, ir::name(order), scope_word(scope));
  return e.made(name, [&] {
    const char c = size == 8 ? 'l' : size == 2 ? 'h' : 'r';
    return fmt::format(
        "$fn {0} {1}({0}* p, {0} expected, {0} next) {{\n  {0} old;\n"
        "  asm volatile(\"atom.{2}.{3}.cas.b{4} %0, [%1], %2, %3;\" : \"={5}\"(old) : \"l\"(p), \"{5}\"(expected), "
        "\"{5}\"(next) : \"memory\");\n"
        "  return old;\n}}",
        raw_type(size), name, ir::name(order), scope_word(scope), size * 8, c);
  });
}

std::string load_helper(Emitter& e, u32 size, MemoryOrder order, Scope scope) {
  const std::string_view sem = order == MemoryOrder::acquire || order == MemoryOrder::acq_rel ? "acquire" : "relaxed";
  const std::string name = fmt::format("atomic_load_u{}_{}_{}", size * 8, sem, scope_word(scope));
  return e.made(name, [&] {
    const std::string_view reg = size == 8 ? "u64" : "u32";
    return fmt::format(
        "$fn {0} {1}(const {0}* p) {{\n  {2} value;\n  asm volatile(\"ld.{3}.{4}.u{5} %0, [%1];\" : \"={6}\"(value) : "
        "\"l\"(p) : \"memory\");\n"
        "  return ({0})value;\n}}",
        raw_type(size), name, reg, sem, scope_word(scope), size * 8, size == 8 ? 'l' : 'r');
  });
}

Opcode step_of(AtomicKind kind) {
  switch (kind) {
    case AtomicKind::add:
      return Opcode::Add;
    case AtomicKind::min:
      return Opcode::Min;
    case AtomicKind::max:
      return Opcode::Max;
    case AtomicKind::and_:
      return Opcode::And;
    case AtomicKind::or_:
      return Opcode::Or;
    default:
      return Opcode::Xor;
  }
}

// The PTX type of a native read-modify-write, or nothing where a compare-and-swap loop is needed.
std::string_view native_type(Emitter& e, OpId id, AtomicKind kind, DType t) {
  const bool wide = dtype_size(t) == 8;
  if (dtype_size(t) < 4) return {};
  switch (kind) {
    case AtomicKind::exchange:
      return wide ? "b64" : "b32";
    case AtomicKind::and_:
    case AtomicKind::or_:
    case AtomicKind::xor_:
      return is_int(t) ? (wide ? "b64" : "b32") : "";
    case AtomicKind::inc_wrap:
      return is_int(t) && !wide ? "u32" : "";
    case AtomicKind::add: {
      if (t == DType::f64) return "f64";
      if (t == DType::f32) {
        // The instruction on global memory flushes denormals, which only `fast` allows.
        const bool shared = e.kernel().type(e.kernel().operand(id, 0)).space == ir::Space::shared;
        return shared || e.kernel().numerics == ir::Numerics::fast ? "f32" : "";
      }
      return wide ? "u64" : t == DType::i32 ? "s32" : "u32";
    }
    case AtomicKind::min:
    case AtomicKind::max:
      if (!is_int(t)) return {};
      return wide ? (is_signed_int(t) ? "s64" : "u64") : (is_signed_int(t) ? "s32" : "u32");
  }
  return {};
}

std::string rmw_helper(Emitter& e, OpId id, const ir::AtomicImm& imm, DType t) {
  const std::string_view order = ir::name(imm.order), scope = scope_word(imm.scope), kind = ir::name(imm.kind);
  const std::string_view native = native_type(e, id, imm.kind, t);
  const std::string name =
      fmt::format("atomic_{}_{}_{}_{}{}", kind, dtype_name(t), order, scope, native.empty() ? "_loop" : "");
  if (!native.empty()) {
    const std::string_view word = imm.kind == AtomicKind::exchange   ? "exch"
                                  : imm.kind == AtomicKind::inc_wrap ? "inc"
                                                                     : kind;
    return e.made(name, [&] {
      return fmt::format(
          "$fn {0} {1}({0}* p, {0} v) {{\n  {0} old;\n  asm volatile(\"atom.{2}.{3}.{4}.{5} %0, [%1], %2;\" : "
          "\"={6}\"(old) : \"l\"(p), \"{6}\"(v) : \"memory\");\n  return old;\n}}",
          e.type_name(t), name, order, scope, word, native, constraint(t));
    });
  }
  const u32 size = dtype_size(t);
  const std::string cas = cas_helper(e, size, imm.order, imm.scope),
                    load = load_helper(e, size, MemoryOrder::relaxed, imm.scope);
  return e.made(name, [&] {
    const Expr old = rows::from_bits(e, raw("seen"), t);
    const Expr next = imm.kind == AtomicKind::exchange ? raw("v")
                      : imm.kind == AtomicKind::inc_wrap
                          ? ternary(binary(raw("seen"), ">=", rows::to_bits(e, raw("v"), t), Prec::relation), raw("0"),
                                    binary(raw("seen"), "+", raw("1"), Prec::sum))
                          : e.apply(step_of(imm.kind), t, {raw("old"), raw("v")});
    const Expr next_bits = imm.kind == AtomicKind::inc_wrap ? c_cast(raw_type(size), next) : rows::to_bits(e, next, t);
    return fmt::format(
        "$fn {0} {1}({0}* p, {0} v) {{\n  {2} seen = {3}((const {2}*)p);\n  for (;;) {{\n    const {0} old = {4};\n    "
        "const {2} was = {5}(({2}*)p, seen, {6});\n"
        "    if (was == seen) return old;\n    seen = was;\n  }}\n}}",
        e.type_name(t), name, raw_type(size), load, old.text, cas, next_bits.text);
  });
}
}  // namespace

void atomic_rmw(Emitter& e, OpId id) {
  const auto imm = ir::unpack<ir::AtomicImm>(e.kernel().op(id).imm);
  const std::string f = rmw_helper(e, id, imm, element(e, id));
  e.define(id, "old", {raw(fmt::format("{}({}, {})", f, address(e, id), e.arg(id, 2).text))});
}

void atomic_cas(Emitter& e, OpId id) {
  const auto imm = ir::unpack<ir::AtomicImm>(e.kernel().op(id).imm);
  const DType t = element(e, id);
  const u32 size = dtype_size(t);
  const std::string f = cas_helper(e, size, imm.order, imm.scope);
  const std::string expected = rows::to_bits(e, e.arg(id, 2), t).text, next = rows::to_bits(e, e.arg(id, 3), t).text;
  e.define(id, "old",
           {rows::from_bits(
               e, raw(fmt::format("{}(({}*){}, {}, {})", f, raw_type(size), address(e, id), expected, next)), t)});
}

void atomic_load(Emitter& e, OpId id) {
  const auto imm = ir::unpack<ir::AtomicImm>(e.kernel().op(id).imm);
  const DType t = element(e, id);
  const u32 size = dtype_size(t);
  const std::string f = load_helper(e, size, imm.order, imm.scope);
  e.define(id, "seen",
           {rows::from_bits(e, raw(fmt::format("{}((const {}*){})", f, raw_type(size), address(e, id))), t)});
}

void atomic_store(Emitter& e, OpId id) {
  const auto imm = ir::unpack<ir::AtomicImm>(e.kernel().op(id).imm);
  const DType t = element(e, id);
  const u32 size = dtype_size(t);
  const std::string_view sem =
      imm.order == MemoryOrder::release || imm.order == MemoryOrder::acq_rel ? "release" : "relaxed";
  const std::string name = fmt::format("atomic_store_u{}_{}_{}", size * 8, sem, scope_word(imm.scope));
  e.made(name, [&] {
    return fmt::format(
        "$fn void {0}({1}* p, {1} v) {{ asm volatile(\"st.{2}.{3}.u{4} [%0], %1;\" : : \"l\"(p), \"{5}\"(({6})v) : "
        "\"memory\"); }}",
        name, raw_type(size), sem, scope_word(imm.scope), size * 8, size == 8 ? 'l' : 'r', size == 8 ? "u64" : "u32");
  });
  e.line(id,
         fmt::format("{}(({}*){}, {});", name, raw_type(size), address(e, id), rows::to_bits(e, e.arg(id, 2), t).text));
}

void wait_until(Emitter& e, OpId id) {
  const auto imm = ir::unpack<ir::WaitImm>(e.kernel().op(id).imm);
  const DType t = element(e, id);
  const u32 size = dtype_size(t);
  if (!is_int(t)) e.refuse(id, "a wait compares integers", "wait on an integer flag");
  static constexpr std::string_view compares[] = {"==", "!=", "<", "<=", ">", ">="};
  const std::string load = load_helper(e, size, MemoryOrder::acquire, imm.scope);
  const std::string name =
      fmt::format("wait_until_{}_{}_{}", ir::name(imm.compare), dtype_name(t), scope_word(imm.scope));
  e.made(name, [&] {
    return fmt::format(
        "$fn {0} {1}(const {0}* p, {0} mask, {0} value) {{\n  for (;;) {{\n    const {0} seen = ({0}){2}((const "
        "{3}*)p);\n    if (({0})(seen & mask) {4} value) return seen;\n  }}\n}}",
        e.type_name(t), name, load, raw_type(size), compares[static_cast<std::size_t>(imm.compare)]);
  });
  e.define(id, "seen",
           {raw(fmt::format("{}({}, {}, {})", name, address(e, id), e.arg(id, 2).text, e.arg(id, 3).text))});
}

void ticket(Emitter& e, OpId id) {
  const DType t = element(e, id);
  if (!is_int(t) || dtype_size(t) < 4) e.refuse(id, "a ticket counts in 32 or 64 bits", "use a u32 or u64 counter");
  const std::string add = rmw_helper(e, id, {AtomicKind::add, MemoryOrder::relaxed, Scope::grid}, t);
  const std::string name = fmt::format("group_ticket_{}", dtype_name(t));
  e.made(name, [&] {
    return fmt::format(
        "$fn index_t {1}({0}* p, u32 thread, u64* partials) {{\n  if (thread == 0) *partials = (u64){2}(p, 1);\n  "
        "__syncthreads();\n"
        "  const index_t number = (index_t)*partials;\n  __syncthreads();\n  return number;\n}}",
        e.type_name(t), name, add);
  });
  e.define(id, "ticket", {raw(fmt::format("{}({}, {}, {})", name, address(e, id), e.linear_thread(), e.partials()))});
}

void fence(Emitter& e, OpId id) {
  const auto imm = ir::unpack<ir::AtomicImm>(e.kernel().op(id).imm);
  if (imm.order == MemoryOrder::relaxed) return e.line(id, "asm volatile(\"\" : : : \"memory\");");
  e.line(id, fmt::format("asm volatile(\"fence.acq_rel.{};\" : : : \"memory\");", scope_word(imm.scope)));
}

void prefetch(Emitter& e, OpId id) {
  if (e.kernel().type(e.kernel().operand(id, 0)).space != ir::Space::global) return;
  e.line(id,
         e.call("prefetch", {raw("&" + rows::element(e, e.kernel().operand(id, 0), e.arg(id, 1)).text)}).text + ";");
}

namespace {
// Text inside a C string and a printf format.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '"' || c == '\\')
      out += '\\', out += c;
    else if (c == '\n')
      out += "\\n";
    else if (c == '%')
      out += "%%";
    else
      out += c;
  }
  return out;
}
}  // namespace

void check(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  const auto& l = k.location(id);
  const std::string where = l.line ? fmt::format("{}:{}: ", l.file, l.line) : std::string{};
  e.line(id, fmt::format("if ({}) printf(\"{}check failed: {}\\n\");", unary("!", e.arg(id, 0)).text, escaped(where),
                         escaped(k.texts[k.op(id).imm])));
}

// `{}` in the text takes the operands in order; the rest follow, separated by spaces.
void print(Emitter& e, OpId id) {
  const auto& k = e.kernel();
  std::string format = escaped(k.texts[k.op(id).imm]), args;
  for (u32 i = 0; i < k.op(id).operand_count; ++i) {
    const auto t = k.type(k.operand(id, i));
    for (u32 lane = 0; lane < t.lanes; ++lane) {
      const Expr& v = e.arg(id, i, lane);
      std::string spec, value;
      if (is_float(t.elem)) {
        spec = t.elem == DType::f64 ? "%.17g" : "%.9g";
        value = c_cast("f64", rows::widen(e, v, t.elem)).text;
      } else if (is_unsigned_int(t.elem))
        spec = "%llu", value = c_cast("u64", v).text;
      else if (t.elem == DType::boolean)
        spec = "%s", value = fmt::format("({} ? \"true\" : \"false\")", v.text);
      else
        spec = "%lld", value = c_cast("i64", v).text;
      args += ", " + value;
      if (const auto at = format.find("{}"); at != std::string::npos)
        format.replace(at, 2, spec);
      else
        format += " " + spec;
    }
  }
  e.line(id, fmt::format("printf(\"{}\\n\"{});", format, args));
}

}  // namespace iron::emit::cuda
