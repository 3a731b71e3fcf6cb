// The op matrix. Kernels are texts, so that what runs is what the parser and the verifier accept.
#include "op_matrix.h"

#include <fmt/format.h>

namespace iron::testing {

using ir::Opcode;
using ir::TypeRule;

namespace {
constexpr DType all_types[] = {DType::i8,  DType::u8,  DType::i16,  DType::u16, DType::i32, DType::u32,    DType::i64,
                               DType::u64, DType::f16, DType::bf16, DType::f32, DType::f64, DType::boolean};

constexpr std::string_view at_thread = "  %i = grid_thread_id : index\n";

std::string kernel(std::string_view params, std::string_view body, std::string_view mode = "threadgroup") {
  return fmt::format("kernel @op({}) {} exact {{\n{}}}\n", params, mode, body);
}

class Matrix {
 public:
  std::vector<OpCase> run() {
    for (int i = 0; i < ir::opcode_count; ++i) {
      const auto code = static_cast<Opcode>(i);
      const auto& info = ir::info(code);
      if (info.has(ir::Math)) continue;  // expanded before emission
      if (info.pure() && info.operands > 0) pure(code);
    }
    casts();
    decodes();
    bitcasts();
    ids();
    vectors();
    memory();
    control();
    simd();
    group();
    atomics();
    tiles();
    facts();
    return std::move(cases_);
  }

 private:
  void add(std::string name, std::string text, Opcode code, bool exact = true, u32 groups = 4, u32 threads = 64) {
    cases_.push_back({std::move(name), std::move(text), code, groups, threads, exact});
  }

  /// y[i] = op(a[i], b[i], ...) with operands and result of one type, or a bool result.
  void elementwise(Opcode code, DType t, int operands, DType result, std::string_view imm = "") {
    const auto& info = ir::info(code);
    std::string params, body(at_thread), args;
    for (int o = 0; o < operands; ++o) {
      params += fmt::format("%{}: in {}, ", "abcd"[o], dtype_name(t));
      body += fmt::format("  %{} = load %{}[%i] : {}\n", o, "abcd"[o], dtype_name(t));
      args += fmt::format("{}%{}", o ? ", " : " ", o);
    }
    body += fmt::format("  %r = {}{}{} : {}\n  store %y[%i], %r\n", info.text, imm, args, dtype_name(result));
    add(fmt::format("{}{}.{}", info.text, imm, dtype_name(t)),
        kernel(fmt::format("{}%y: out {}", params, dtype_name(result)), body), code, !info.has(ir::Fast));
  }

  void pure(Opcode code) {
    const auto& info = ir::info(code);
    for (const DType t : all_types) {
      const bool arithmetic = t != DType::boolean;
      switch (info.rule) {
        case TypeRule::Same:
          if (arithmetic) elementwise(code, t, info.operands, t);
          break;
        case TypeRule::SameFloat:
          if (is_float(t) && !(info.has(ir::Fast) && t == DType::f64)) elementwise(code, t, info.operands, t);
          break;
        case TypeRule::SameInt:
          if (code == Opcode::Dot4I8) {
            if (t == DType::i32 || t == DType::u32)
              for (const auto* signs :
                   {"<signed, signed>", "<signed, unsigned>", "<unsigned, signed>", "<unsigned, unsigned>"})
                elementwise(code, t, 3, t, signs);
          } else if (is_int(t))
            elementwise(code, t, info.operands, t);
          break;
        case TypeRule::SameBits:
          if (is_int(t) || !arithmetic) elementwise(code, t, info.operands, t);
          break;
        case TypeRule::Compare:
          if (arithmetic || code == Opcode::Eq || code == Opcode::Ne) elementwise(code, t, 2, DType::boolean);
          break;
        case TypeRule::IsNan:
          if (is_float(t)) elementwise(code, t, 1, DType::boolean);
          break;
        case TypeRule::Select:
          add(fmt::format("select.{}", dtype_name(t)),
              kernel(fmt::format("%c: in bool, %a: in {0}, %b: in {0}, %y: out {0}", dtype_name(t)),
                     fmt::format("{0}  %0 = load %c[%i] : bool\n  %1 = load %a[%i] : {1}\n  %2 = load %b[%i] : {1}\n  "
                                 "%r = select %0, %1, %2 : {1}\n  store %y[%i], %r\n",
                                 at_thread, dtype_name(t))),
              code);
          break;
        case TypeRule::Ldexp:
          if (is_float(t))
            add(fmt::format("ldexp.{}", dtype_name(t)),
                kernel(fmt::format("%a: in {0}, %n: in i32, %y: out {0}", dtype_name(t)),
                       fmt::format("{0}  %0 = load %a[%i] : {1}\n  %1 = load %n[%i] : i32\n  %2 = rem %1, 2400:i32 : "
                                   "i32\n  %r = ldexp %0, %2 : {1}\n  store %y[%i], %r\n",
                                   at_thread, dtype_name(t))),
                code);
          break;
        default:
          break;
      }
    }
  }

  void casts() {
    for (const DType from : all_types)
      for (const DType to : all_types) {
        if (from == to) continue;
        add(fmt::format("cast.{}.{}", dtype_name(from), dtype_name(to)),
            kernel(fmt::format("%a: in {}, %y: out {}", dtype_name(from), dtype_name(to)),
                   fmt::format("{}  %0 = load %a[%i] : {}\n  %r = cast %0 : {}\n  store %y[%i], %r\n", at_thread,
                               dtype_name(from), dtype_name(to))),
            Opcode::Cast);
      }
    for (const DType t : all_types) {
      // Through index: from every type and back.
      add(fmt::format("cast.{}.index", dtype_name(t)),
          kernel(fmt::format("%a: in {}, %y: out i64", dtype_name(t)),
                 fmt::format(
                     "{}  %0 = load %a[%i] : {}\n  %1 = cast %0 : index\n  %r = cast %1 : i64\n  store %y[%i], %r\n",
                     at_thread, dtype_name(t))),
          Opcode::Cast);
      add(fmt::format("cast.index.{}", dtype_name(t)),
          kernel(fmt::format("%a: in i64, %y: out {}", dtype_name(t)),
                 fmt::format(
                     "{}  %0 = load %a[%i] : i64\n  %1 = cast %0 : index\n  %r = cast %1 : {}\n  store %y[%i], %r\n",
                     at_thread, dtype_name(t))),
          Opcode::Cast);
    }
  }

  void decodes() {
    for (const Opcode code : {Opcode::DecodeE2M1, Opcode::DecodeE4M3, Opcode::DecodeE5M2, Opcode::DecodeE8M0})
      add(std::string(ir::info(code).text),
          kernel("%a: in u32, %y: out f32",
                 fmt::format("{}  %0 = cast %i : u32\n  %r = {} %0 : f32\n  store %y[%i], %r\n", at_thread,
                             ir::info(code).text)),
          code);
  }

  void bitcasts() {
    constexpr std::pair<std::string_view, std::string_view> pairs[] = {
        {"f32", "u32"},  {"u32", "f32"},  {"i32", "f32"}, {"f64", "u64"}, {"i64", "f64"}, {"f16", "u16"},
        {"i16", "bf16"}, {"bf16", "f16"}, {"u8", "i8"},   {"f32", "i32"}, {"u16", "f16"}};
    for (const auto& [from, to] : pairs)
      add(fmt::format("bitcast.{}.{}", from, to),
          kernel(fmt::format("%a: in {}, %y: out {}", from, to),
                 fmt::format("{}  %0 = load %a[%i] : {}\n  %r = bitcast %0 : {}\n  store %y[%i], %r\n", at_thread, from,
                             to)),
          Opcode::Bitcast);
    // Vectors whose elements differ in size.
    for (const auto& [from, to, parts, base] :
         {std::tuple{"u8x4", "u32", 4, "u8"}, std::tuple{"u16x4", "u64", 4, "u16"},
          std::tuple{"f16x2", "u32", 2, "f16"}, std::tuple{"u32x2", "f64", 2, "u32"}}) {
      add(fmt::format("bitcast.{}.{}", from, to),
          kernel(
              fmt::format("%a: in {}, %y: out {}", base, to),
              fmt::format(
                  "{}  %k = mul %i, {} : index\n  %0 = load %a[%k] : {}\n  %r = bitcast %0 : {}\n  store %y[%i], %r\n",
                  at_thread, parts, from, to)),
          Opcode::Bitcast);
      add(fmt::format("bitcast.{}.{}", to, from),
          kernel(
              fmt::format("%a: in {}, %y: out {}", to, base),
              fmt::format(
                  "{}  %k = mul %i, {} : index\n  %0 = load %a[%i] : {}\n  %r = bitcast %0 : {}\n  store %y[%k], %r\n",
                  at_thread, parts, to, from)),
          Opcode::Bitcast);
    }
  }

  void id(std::string_view op, Opcode code) {
    add(std::string(op),
        kernel("%y: out i64",
               fmt::format("{}  %0 = {} : index\n  %r = cast %0 : i64\n  store %y[%i], %r\n", at_thread, op)),
        code);
  }
  void ids() {
    id("thread_id", Opcode::ThreadId), id("group_size", Opcode::GroupSize), id("lane_id", Opcode::LaneId),
        id("simdgroup_id", Opcode::SimdgroupId);
    id("simdgroup_count", Opcode::SimdgroupCount), id("simd_width", Opcode::SimdWidth),
        id("item_count", Opcode::ItemCount), id("grid_thread_id", Opcode::GridThreadId);
    for (const auto* axis : {"<x>", "<y>", "<z>"}) {
      id(fmt::format("thread_pos{}", axis), Opcode::ThreadPos), id(fmt::format("group_id{}", axis), Opcode::GroupId);
      id(fmt::format("group_count{}", axis), Opcode::GroupCount),
          id(fmt::format("group_dim{}", axis), Opcode::GroupDim), id(fmt::format("grid_pos{}", axis), Opcode::GridPos);
    }
    add("length",
        kernel("%a: in f32, %y: out i64",
               fmt::format("{}  %0 = length %a : index\n  %v = view<8> %a : global u8\n  %1 = length %v : index\n  %2 "
                           "= sub %1, %0 : index\n  %r = cast %2 : i64\n  store %y[%i], %r\n",
                           at_thread)),
        Opcode::Length);
    // index arithmetic with values that do not overflow, divisors of every kind
    for (const auto* op : {"add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor", "shl", "shr"})
      add(fmt::format("{}.index", op),
          kernel("%a: in i16, %b: in i16, %y: out i64",
                 fmt::format("{}  %0 = load %a[%i] : i16\n  %1 = load %b[%i] : i16\n  %2 = cast %0 : index\n  %3 = "
                             "cast %1 : index\n  %4 = {} %2, %3 : index\n  %r = cast %4 : i64\n  store %y[%i], %r\n",
                             at_thread, op)),
          Opcode::Add);
  }

  void vectors() {
    for (const DType t : all_types) {
      if (t == DType::boolean) continue;
      const auto n = dtype_name(t);
      for (const int lanes : {2, 4, 8})
        for (const bool aligned : {true, false}) {
          const std::string align =
              aligned ? fmt::format("<align {}>", std::min<u32>(16, dtype_size(t) * static_cast<u32>(lanes))) : "";
          add(fmt::format("vector{}.{}{}", lanes, n, aligned ? ".aligned" : ""),
              kernel(fmt::format("%a: in {0}, %b: in {0}, %y: out {0}", n),
                     fmt::format("{0}  %k = mul %i, {1} : index\n  %0 = load{2} %a[%k] : {3}x{1}\n  %1 = load{2} "
                                 "%b[%k] : {3}x{1}\n  %2 = add %0, %1 : {3}x{1}\n  store{2} %y[%k], %2\n",
                                 at_thread, lanes, align, n)),
              Opcode::Add);
        }
      add(fmt::format("vec.{}", n),
          kernel(fmt::format("%a: in {0}, %y: out {0}", n),
                 fmt::format("{0}  %k = mul %i, 4 : index\n  %0 = load %a[%k] : {1}x4\n  %1 = vec.extract<3> %0 : "
                             "{1}\n  %2 = vec.insert<1> %0, %1 : {1}x4\n  %3 = vec.extract<0> %2 : {1}\n"
                             "  %4 = vec.extract<1> %2 : {1}\n  %5 = vec.make %4, %3 : {1}x2\n  store %y[%k], %2\n  %m "
                             "= add %k, 2 : index\n  store %y[%m], %5\n",
                             at_thread, n)),
          Opcode::VecMake);
    }
  }

  void memory() {
    for (const DType t : all_types) {
      const auto n = dtype_name(t);
      add(fmt::format("load.or.{}", n),
          kernel(fmt::format("%a: in {0}, %y: out {0}", n),
                 fmt::format("{0}  %p = lt %i, 77 : bool\n  %1 = load %a[0] : {1}\n  %r = load.or %a[%i], %p, %1 : "
                             "{1}\n  store %y[%i], %r\n",
                             at_thread, n)),
          Opcode::LoadOr);
      add(fmt::format("shared.{}", n),
          kernel(
              fmt::format("%a: in {0}, %y: out {0}", n),
              fmt::format(
                  "{0}  %s = shared.new<64> : shared {1}\n  %t = thread_id : index\n  %0 = load %a[%i] : {1}\n  store "
                  "%s[%t], %0\n  barrier\n  %u = sub 63, %t : index\n  %r = load %s[%u] : {1}\n  store %y[%i], %r\n",
                  at_thread, n)),
          Opcode::SharedNew);
      add(fmt::format("array.{}", n),
          kernel(fmt::format("%a: in {0}, %y: out {0}", n),
                 fmt::format("{0}  %s = array.new<4> : thread {1}\n  %0 = load %a[%i] : {1}\n  %1 = load %a[0] : {1}\n "
                             " for %j = 0 to 4 step 1 {{\n    store %s[%j], %1\n  }}\n  %t = rem %i, 4 : index\n  "
                             "store %s[%t], %0\n  %r = load %s[1] : {1}\n  store %y[%i], %r\n",
                             at_thread, n)),
          Opcode::ArrayNew);
      add(fmt::format("stream.{}", n),
          kernel(fmt::format("%a: in {0}, %y: out {0}", n),
                 fmt::format("{0}  %r = load<stream> %a[%i] : {1}\n  store<stream> %y[%i], %r\n", at_thread, n)),
          Opcode::Load);
    }
    add("stream.vector",
        kernel("%a: in f32, %y: out f32", fmt::format("{}  %k = mul %i, 4 : index\n  %r = load<align 16, stream> "
                                                      "%a[%k] : f32x4\n  store<align 16, stream> %y[%k], %r\n",
                                                      at_thread)),
        Opcode::Load);
    add("load.or.vector",
        kernel(
            "%a: in f32, %y: out f32",
            fmt::format(
                "{}  %k = mul %i, 4 : index\n  %p = lt %i, 77 : bool\n  %1 = load %a[0] : f32\n  %2 = vec.make %1, %1, "
                "%1, %1 : f32x4\n  %r = load.or<align 16> %a[%k], %p, %2 : f32x4\n  store<align 16> %y[%k], %r\n",
                at_thread)),
        Opcode::LoadOr);
    add("view",
        kernel("%a: in u8, %y: out f32",
               fmt::format("{}  %v = view<16> %a : global f32\n  %r = load %v[%i] : f32\n  store %y[%i], %r\n",
                           at_thread)),
        Opcode::View);
    add("shared.alias",
        kernel("%a: in u32, %y: out u16",
               fmt::format("{}  %s = shared.new<128> : shared u32\n  %v = shared.alias<256> %s : shared u16\n  %t = "
                           "thread_id : index\n  %k = add %t, 64 : index\n  %0 = load %a[%i] : u32\n  store %s[%k], "
                           "%0\n  barrier\n  %m = mul %t, 2 : index\n  %r = load %v[%m] : u16\n  store %y[%i], %r\n",
                           at_thread)),
        Opcode::SharedAlias);
    add("shared.large",
        kernel("%a: in f32, %y: out f32",
               fmt::format("{}  %s = shared.new<16384> : shared f32\n  %t = thread_id : index\n  %k = mul %t, 200 : "
                           "index\n  %0 = load %a[%i] : f32\n  store %s[%k], %0\n  barrier\n  %u = sub 63, %t : "
                           "index\n  %m = mul %u, 200 : index\n  %r = load %s[%m] : f32\n  %z = group.reduce<max> %r : "
                           "f32\n  %q = sub %r, %z : f32\n  store %y[%i], %q\n",
                           at_thread)),
        Opcode::SharedNew);
    for (const auto* swizzle : {"b32", "b64", "b128"})
      add(fmt::format("shared.{}", swizzle),
          kernel(
              "%a: in f16, %y: out f16",
              fmt::format("{0}  %s = shared.new<4096> : shared f16[64 x 64, {1}]\n  %t = thread_id : index\n  %k = mul "
                          "%t, 64 : index\n  %0 = load %a[%i] : f16\n  for %j = 0 to 64 step 1 {{\n    %m = add %k, %j "
                          ": index\n    store %s[%m], %0\n  }}\n  barrier\n  %u = sub 63, %t : index\n  %w = mul %u, "
                          "64 : index\n  %x = add %w, %t : index\n  %r = load %s[%x] : f16\n  store %y[%i], %r\n",
                          at_thread, swizzle)),
          Opcode::SharedNew);
    copies();
    add("prefetch",
        kernel("%a: in f32, %y: out f32",
               fmt::format("{}  prefetch %a[%i]\n  %r = load %a[%i] : f32\n  store %y[%i], %r\n", at_thread)),
        Opcode::Prefetch);
  }

  // What a thread copies, another one reads: after its wait and a barrier.
  void copies() {
    for (const DType t : {DType::u8, DType::f16, DType::bf16, DType::f32, DType::u32, DType::u64})
      for (const u32 bytes : {4u, 8u, 16u})
        for (const bool guarded : {false, true}) {
          const u32 lanes = bytes / dtype_size(t);
          if (lanes == 0 || lanes > 8) continue;
          const auto n = dtype_name(t);
          const auto type = lanes > 1 ? fmt::format("{}x{}", n, lanes) : std::string(n);
          std::string zeros;
          for (u32 l = 0; l < lanes; ++l) zeros += fmt::format("{}{}:{}", l ? ", " : "", is_float(t) ? "0.0" : "0", n);
          const std::string other = lanes > 1 ? "%z" : zeros;
          const std::string load =
              guarded ? fmt::format("{}  %p = lt %i, 77 : bool\n  %v = load.or<align {}> %a[%g], %p, {} : {}\n",
                                    lanes > 1 ? fmt::format("  %z = vec.make {} : {}\n", zeros, type) : "", bytes,
                                    other, type)
                      : fmt::format("  %v = load<align {}> %a[%g] : {}\n", bytes, type);
          add(fmt::format("copy.async.{}.{}{}", n, bytes, guarded ? ".or" : ""),
              kernel(
                  fmt::format("%a: in {0}, %y: out {0}", n),
                  fmt::format("{0}  %s = shared.new<{1}> : shared {2}\n  %t = thread_id : index\n  %k = mul %t, {3} : "
                              "index\n  %g = mul %i, {3} : index\n{4}  copy.async<align {5}> %s[%k], %v\n  "
                              "copy.commit\n  copy.wait<0>\n  barrier\n  %u = sub 63, %t : index\n  %m = mul %u, {3} "
                              ": index\n  %r = load<align {5}> %s[%m] : {6}\n  store<align {5}> %y[%g], %r\n",
                              at_thread, 64 * lanes, n, lanes, load, bytes, type)),
              Opcode::CopyAsync);
        }
  }

  void control() {
    add("for.carry",
        kernel(
            "%a: in f32, %y: out f32",
            fmt::format(
                "{}  %0 = load %a[%i] : f32\n  %1, %2 = for %j = 0 to 7 step 2 carry(%3 = %0, %4 = 1.0:f32) : f32, f32 "
                "{{\n    %5 = add %3, %4 : f32\n    yield %4, %5\n  }}\n  %r = sub %1, %2 : f32\n  store %y[%i], %r\n",
                at_thread)),
        Opcode::For);
    add("for.until",
        kernel("%a: in u32, %y: out u32",
               fmt::format("{}  %0 = load %a[%i] : u32\n  %1, %2 = for %j = 0 to 40 step 1 carry(%3 = %0, %d = false) "
                           "until(1) : u32, bool {{\n    %4 = shr %3, 1:u32 : u32\n    %5 = lt %4, 1000:u32 : bool\n   "
                           " yield %4, %5\n  }}\n  store %y[%i], %1\n",
                           at_thread)),
        Opcode::For);
    for (const DType t : {DType::u8, DType::i8, DType::u32, DType::i32, DType::u64, DType::i64}) {
      const auto n = dtype_name(t);
      add(fmt::format("for.{}", n),
          kernel(fmt::format("%y: out {}", n),
                 fmt::format("{0}  %e = cast %i : {1}\n  %1 = for %j = 1:{1} to %e step 50:{1} carry(%2 = 0:{1}) : {1} "
                             "{{\n    %3 = add %2, %j : {1}\n    yield %3\n  }}\n  store %y[%i], %1\n",
                             at_thread, n)),
          Opcode::For);
    }
    add("if.else",
        kernel("%a: in f32, %y: out f32",
               fmt::format("{}  %0 = load %a[%i] : f32\n  %p = lt %0, 0.0:f32 : bool\n  %1 = if %p : f32 {{\n    %2 = "
                           "neg %0 : f32\n    yield %2\n  }} else {{\n    %3 = mul %0, 2.0:f32 : f32\n    yield %3\n  "
                           "}}\n  store %y[%i], %1\n",
                           at_thread)),
        Opcode::If);
    add("if.only_else",
        kernel("%y: inout f32", fmt::format("{}  %0 = load %y[%i] : f32\n  %p = lt %0, 0.0:f32 : bool\n  if %p {{\n  "
                                            "}} else {{\n    store %y[%i], 1.0:f32\n  }}\n",
                                            at_thread)),
        Opcode::If);
  }

  void simd() {
    for (const DType t : all_types) {
      const auto n = dtype_name(t);
      for (const auto* kind : {"sum", "prod", "min", "max", "and", "or", "xor"}) {
        const bool logical =
            std::string_view(kind) == "and" || std::string_view(kind) == "or" || std::string_view(kind) == "xor";
        if (logical ? is_float(t) : t == DType::boolean) continue;
        const std::string imm = fmt::format("<{}>", kind);
        elementwise(Opcode::SimdReduce, t, 1, t, imm);
        elementwise(Opcode::GroupReduce, t, 1, t, imm);
        if (logical) continue;
        for (const Opcode scan : {Opcode::SimdScan, Opcode::GroupScan}) {
          elementwise(scan, t, 1, t, imm);
          elementwise(scan, t, 1, t, fmt::format("<{}, exclusive>", kind));
        }
      }
      elementwise(Opcode::SimdShuffleXor, t, 1, t, "<5>");
      elementwise(Opcode::SimdShuffleUp, t, 1, t, "<3>");
      elementwise(Opcode::SimdShuffleDown, t, 1, t, "<7>");
      elementwise(Opcode::GroupBroadcast, t, 1, t, "<37>");
      for (const auto* op : {"simd.shuffle", "simd.broadcast"})
        add(fmt::format("{}.{}", op, n),
            kernel(fmt::format("%a: in {0}, %y: out {0}", n),
                   fmt::format("{0}  %0 = load %a[%i] : {1}\n  %l = lane_id : index\n  %f = sub 31, %l : index\n  %r = "
                               "{2} %0, {3} : {1}\n  store %y[%i], %r\n",
                               at_thread, n, op, std::string_view(op) == "simd.shuffle" ? "%f" : "9")),
            Opcode::SimdShuffle);
    }
    add("simd.ballot",
        kernel(
            "%a: in bool, %y: out u32",
            fmt::format("{}  %0 = load %a[%i] : bool\n  %r = simd.ballot %0 : u32\n  store %y[%i], %r\n", at_thread)),
        Opcode::SimdBallot);
    for (const auto* op : {"simd.any", "simd.all"})
      add(op,
          kernel("%a: in bool, %y: out bool",
                 fmt::format("{}  %0 = load %a[%i] : bool\n  %r = {} %0 : bool\n  store %y[%i], %r\n", at_thread, op)),
          std::string_view(op) == "simd.any" ? Opcode::SimdAny : Opcode::SimdAll);
    add("simd.barrier",
        kernel(
            "%y: out u32",
            fmt::format(
                "{}  %s = shared.new<64> : shared u32\n  %t = thread_id : index\n  %0 = cast %i : u32\n  store %s[%t], "
                "%0\n  simd.barrier\n  %u = xor %t, 1 : index\n  %r = load %s[%u] : u32\n  store %y[%i], %r\n",
                at_thread)),
        Opcode::SimdBarrier);
  }

  void group() {
    for (const auto* op : {"group.any", "group.all"})
      add(op,
          kernel("%a: in bool, %y: out bool",
                 fmt::format("{}  %0 = load %a[%i] : bool\n  %r = {} %0 : bool\n  store %y[%i], %r\n", at_thread, op)),
          std::string_view(op) == "group.any" ? Opcode::GroupAny : Opcode::GroupAll);
    // One simdgroup, and a full threadgroup; two reductions in a loop reuse the slots.
    for (const u32 threads : {32u, 1024u})
      add(fmt::format("group.reduce.{}", threads),
          kernel("%a: in f32, %y: out f32",
                 fmt::format("{}  %0 = load %a[%i] : f32\n  %1 = for %j = 0 to 3 step 1 carry(%2 = %0) : f32 {{\n    "
                             "%3 = group.reduce<sum> %2 : f32\n    %4 = group.reduce<max> %2 : f32\n    %5 = sub %3, "
                             "%4 : f32\n    %6 = add %5, %0 : f32\n    yield %6\n  }}\n  store %y[%i], %1\n",
                             at_thread)),
          Opcode::GroupReduce, true, 2, threads);
    add("group.scan.1024",
        kernel("%a: in f32, %y: out f32",
               fmt::format("{}  %0 = load %a[%i] : f32\n  %r = group.scan<sum> %0 : f32\n  store %y[%i], %r\n",
                           at_thread)),
        Opcode::GroupScan, true, 2, 1024);
  }

  void atomics() {
    for (const DType t : {DType::i32, DType::u32, DType::i64, DType::u64, DType::i16, DType::u16, DType::f32,
                          DType::f64, DType::f16, DType::bf16}) {
      const auto n = dtype_name(t);
      for (const auto* kind : {"add", "min", "max", "and", "or", "xor", "exchange", "inc_wrap"})
        for (const auto* order : {"relaxed", "acquire", "release", "acq_rel"}) {
          const std::string_view k = kind;
          if (is_float(t) && (k == "and" || k == "or" || k == "xor" || k == "inc_wrap")) continue;
          if (std::string_view(order) != "relaxed" && k != "add") continue;
          const auto* scope = std::string_view(order) == "acquire" ? "threadgroup" : "grid";
          // Each thread has its own element, so that the old value is defined.
          add(fmt::format("atomic.rmw.{}.{}.{}", kind, n, order),
              kernel(fmt::format("%s: inout {0}, %a: in {0}, %y: out {0}", n),
                     fmt::format("{0}  %0 = load %a[%i] : {1}\n  %r = atomic.rmw<{2}, {3}, {4}> %s[%i], %0 : {1}\n  "
                                 "store %y[%i], %r\n",
                                 at_thread, n, kind, order, scope)),
              Opcode::AtomicRmw);
        }
      add(fmt::format("atomic.cas.{}", n),
          kernel(fmt::format("%s: inout {0}, %a: in {0}, %b: in {0}, %y: out {0}", n),
                 fmt::format("{0}  %0 = load %a[%i] : {1}\n  %1 = load %b[%i] : {1}\n  %r = atomic.cas<exchange, "
                             "acq_rel, grid> %s[%i], %0, %1 : {1}\n  store %y[%i], %r\n",
                             at_thread, n)),
          Opcode::AtomicCas);
      add(fmt::format("atomic.load.{}", n),
          kernel(fmt::format("%s: inout {0}, %a: in {0}, %y: out {0}", n),
                 fmt::format("{0}  %0 = load %a[%i] : {1}\n  atomic.store<exchange, release, grid> %s[%i], %0\n  %r = "
                             "atomic.load<exchange, acquire, grid> %s[%i] : {1}\n  store %y[%i], %r\n",
                             at_thread, n)),
          Opcode::AtomicLoad);
    }
    // Contended sums of integers have one result.
    add("atomic.contended",
        kernel("%s: inout u32, %a: in u32",
               fmt::format("{}  %0 = load %a[%i] : u32\n  %1 = atomic.rmw<add, relaxed, grid> %s[0], %0 : u32\n",
                           at_thread)),
        Opcode::AtomicRmw);
    add("atomic.shared",
        kernel("%a: in i32, %y: out i32",
               fmt::format(
                   "{}  %s = shared.new<1> : shared i32\n  %t = thread_id : index\n  %p = eq %t, 0 : bool\n  if %p "
                   "{{\n    store %s[0], 0:i32\n  }}\n  barrier\n  %0 = load %a[%i] : i32\n  %1 = atomic.rmw<max, "
                   "relaxed, threadgroup> %s[0], %0 : i32\n  barrier\n  %r = load %s[0] : i32\n  store %y[%i], %r\n",
                   at_thread)),
        Opcode::AtomicRmw);
    // Threadgroups pass a baton in ticket order.
    add("wait_until",
        kernel("%s: inout u32, %y: out u32",
               fmt::format("{}  %n = ticket %s[0] : index\n  %t = thread_id : index\n  %p = eq %t, 0 : bool\n  %q = "
                           "cast %n : u32\n  if %p {{\n    %w = wait_until<ge, grid> %s[1], 4294967295:u32, %q : u32\n "
                           "   %m = add %q, 1:u32 : u32\n    store %y[%n], %w\n    fence<exchange, acq_rel, grid>\n    "
                           "atomic.store<exchange, release, grid> %s[1], %m\n  }}\n",
                           at_thread)),
        Opcode::WaitUntil);
  }

  void tiles() {
    const auto tile = [&](std::string_view name, std::string_view acc, std::string_view input, std::string_view scope,
                          u32 m, u32 n, u32 k, std::string_view layout, u32 threads) {
      const std::string body = fmt::format(
          "  %g = group_id<x> : index\n  %c = tile.new<{2}, {3}> : tile {1}[{4} x {5}]\n  tile.zero %c\n  for %j = 0 "
          "to 2 step 1 {{\n    %o = mul %j, {6} : index\n    tile.mma<{6}{7}> %c, %a, %o, 64, %b, %o, 64\n  }}\n"
          "  %e = tile.elems %c : index\n  for %q = 0 to %e step 1 {{\n    %v = tile.get %c, %q : {1}\n    %w = add "
          "%v, %v : {1}\n    tile.set %c, %q, %w\n  }}\n  %at = mul %g, {8} : index\n  tile.store %c, %y, %at, {5}, "
          "{9}, {5}\n",
          name, acc, input, scope, m, n, k, layout, m * n, m - 1);
      add(std::string(name), kernel(fmt::format("%a: in {0}, %b: in {0}, %y: out {1}", input, acc), body),
          Opcode::TileMma, true, 1, threads);
    };
    tile("tile.f32", "f32", "f32", "threadgroup", 16, 16, 8, "", 64);
    tile("tile.f16", "f32", "f16", "threadgroup", 16, 16, 16, ", bt", 128);
    tile("tile.bf16", "f32", "bf16", "threadgroup", 8, 24, 8, ", at", 64);
    tile("tile.f16acc", "f16", "f16", "threadgroup", 16, 16, 8, "", 64);
    tile("tile.f64", "f64", "f64", "threadgroup", 8, 8, 8, ", at, bt", 64);
    tile("tile.i8", "i32", "i8", "threadgroup", 16, 16, 16, "", 64);
    tile("tile.ragged", "f32", "f32", "threadgroup", 5, 7, 8, "", 64);
    tile("tile.simdgroup", "f32", "f32", "simdgroup", 8, 8, 8, "", 32);
    add("tile.load",
        kernel("%a: in f16, %y: out f32",
               "  %c = tile.new<f16, threadgroup> : tile f32[8 x 8]\n  tile.load %c, %a, 3, 16, 7, 5\n  tile.store %c, "
               "%y, 0, 8, 8, 8\n"),
        Opcode::TileLoad, true, 1, 64);
    add("tile.row",
        kernel("%y: out i64",
               "  %t = thread_id : index\n  %c = tile.new<f32, threadgroup> : tile f32[16 x 8]\n  tile.zero %c\n  %0 = "
               "tile.row %c, 1 : index\n  %1 = tile.col %c, 1 : index\n  %2 = mul %0, 100 : index\n  %3 = add %2, %1 : "
               "index\n  %r = cast %3 : i64\n  store %y[%t], %r\n"),
        Opcode::TileRow, true, 1, 64);
  }

  void facts() {
    add("bounded",
        kernel("%a: in i32, %y: out i32",
               fmt::format("{}  %0 = load %a[%i] : i32\n  %1 = bounded %0, -2147483648:i32, 2147483647:i32 : i32\n  %2 "
                           "= assume_uniform<lane> %1 : i32\n  store %y[%i], %2\n",
                           at_thread)),
        Opcode::Bounded);
    add("assume",
        kernel("%y: out i32", fmt::format("{}  %p = ge %i, 0 : bool\n  assume \"ids are not negative\" %p\n  check "
                                          "\"ids are not negative\" %p\n  store %y[%i], 1:i32\n",
                                          at_thread)),
        Opcode::Assume);
    add("print",
        kernel("%a: in f32, %y: out i32",
               fmt::format("{}  %0 = load %a[0] : f32\n  %p = lt %i, 0 : bool\n  if %p {{\n    print \"100% {{}} of\" "
                           "%0, %i, %p\n  }}\n  store %y[%i], 1:i32\n",
                           at_thread)),
        Opcode::Print);
  }

  std::vector<OpCase> cases_;
};
}  // namespace

std::vector<OpCase> op_cases() { return Matrix().run(); }

}  // namespace iron::testing
