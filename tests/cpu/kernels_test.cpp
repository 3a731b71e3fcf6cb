// Control flow, memory, simdgroups and threadgroups: machine code against the interpreter.
#include "differential.h"

namespace iron::cpu::test {
namespace {

std::vector<f32> floats(std::size_t n, u64 seed = 1) {
  std::vector<f32> v(n);
  u64 s = seed * 0x9e3779b97f4a7c15ull + 1;
  for (auto& x : v) {
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;
    x = static_cast<f32>(static_cast<i64>(s >> 40) - (1 << 23)) / 4194304.0f;
  }
  return v;
}
std::vector<u32> words(std::size_t n, u32 below, u64 seed = 1) {
  std::vector<u32> v(n);
  u64 s = seed * 0x9e3779b97f4a7c15ull + 1;
  for (auto& x : v) {
    s ^= s << 13, s ^= s >> 7, s ^= s << 17;
    x = static_cast<u32>(s >> 20) % below;
  }
  return v;
}

TEST(Elementwise, GuardAtOddSizes) {
  for (const u32 threads : {1u, 7u, 32u, 100u, 256u, 1024u})
    for (const u64 n : {5u, 255u, 1000u}) {
      const u32 groups = static_cast<u32>((n + threads - 1) / threads);
      SCOPED_TRACE(fmt::format("{} threads, {} items", threads, n));
      compare(R"(kernel @k(%x: in f32, %z: in f16, %y: out f32, %w: out bf16) elementwise exact {
  %i = grid_thread_id : index
  %n = item_count : index
  %c = lt %i, %n : bool
  if %c {
    %a = load %x[%i] : f32
    %h = load %z[%i] : f16
    %b = cast %h : f32
    %s = add %a, %b : f32
    %m = mul %s, %a : f32
    store %y[%i], %m
    %r = cast %m : bf16
    store %w[%i], %r
  }
})",
              {{groups, 1, 1}, {threads, 1, 1}, n},
              {buffer(floats(n)), packed(DType::f16, interesting(DType::f16, n, 3)), zeros<f32>(n), zeros<u16>(n)});
      if (HasFailure()) return;
    }
}

TEST(Control, NestedDivergence) {
  for (const u32 threads : {33u, 64u, 256u})
    compare(R"(kernel @k(%x: in f32, %u: in u32, %y: out f32, %z: out u32) threadgroup exact {
  %i = grid_thread_id : index
  %a = load %x[%i] : f32
  %k = load %u[%i] : u32
  %c = gt %a, 0.0:f32 : bool
  %r, %q = if %c : f32, u32 {
    %odd = and %k, 1:u32 : u32
    %o = eq %odd, 1:u32 : bool
    %v = if %o : f32 {
      %i2 = cast %k : index
      %b = load %x[%i2] : f32
      %d = div %b, %a : f32
      yield %d
    } else {
      store %z[%i], 7:u32
      yield %a
    }
    %e = cast %k : index
    %f, %g = for %j = 0 to %e step 3 carry(%s = %v, %t = 0:u32) : f32, u32 {
      %s2 = mul %s, 1.5:f32 : f32
      %big = gt %s2, 100.0:f32 : bool
      %s3 = if %big : f32 {
        %h = mul %s2, 0.01:f32 : f32
        yield %h
      } else {
        yield %s2
      }
      %t2 = add %t, 1:u32 : u32
      yield %s3, %t2
    }
    yield %f, %g
  } else {
    %n = neg %a : f32
    yield %n, 5:u32
  }
  store %y[%i], %r
  %same = ne %q, 5:u32 : bool
  if %same {
    store %z[%i], %q
  }
})",
            exec::geometry(3, threads),
            {buffer(floats(threads * 3)), buffer(words(threads * 3, 60)), zeros<f32>(threads * 3),
             zeros<u32>(threads * 3)});
}

TEST(Control, VaryingUntilAndSteps) {
  compare(R"(kernel @k(%x: in f32, %u: in u32, %y: out u32, %w: out f32) threadgroup exact {
  %i = grid_thread_id : index
  %cr = load %x[%i] : f32
  %k = load %u[%i] : u32
  %start = cast %k : index
  %k1 = add %k, 1:u32 : u32
  %step = cast %k1 : index
  %n, %zr, %zi, %d = for %j = 0 to 50 step 1 carry(%c = 0:u32, %a = 0.0:f32, %b = 0.0:f32, %done = false) until(3) : u32, f32, f32, bool {
    %a2 = mul %a, %a : f32
    %b2 = mul %b, %b : f32
    %r = add %a2, %b2 : f32
    %out = gt %r, 4.0:f32 : bool
    %na = sub %a2, %b2 : f32
    %na2 = add %na, %cr : f32
    %ab = mul %a, %b : f32
    %nb = add %ab, 0.25:f32 : f32
    %c2 = add %c, 1:u32 : u32
    yield %c2, %na2, %nb, %out
  }
  %m = for %j2 = %start to 70 step %step carry(%e = %n) : u32 {
    %t = cast %j2 : u32
    %e2 = add %e, %t : u32
    yield %e2
  }
  store %y[%i], %m
  store %w[%i], %zr
})",
          exec::geometry(2, 96), {buffer(floats(192)), buffer(words(192, 20)), zeros<u32>(192), zeros<f32>(192)});
}

TEST(Control, MachineIntegerLoopsDoNotOverflow) {
  for (const std::string type : {"u32", "i32", "u8", "i64"}) {
    const std::string first = type == "u32"   ? "4294967290"
                              : type == "i32" ? "2147483640"
                              : type == "u8"  ? "250"
                                              : "9223372036854775800";
    const std::string last = type == "u32"   ? "4294967295"
                             : type == "i32" ? "2147483647"
                             : type == "u8"  ? "255"
                                             : "9223372036854775807";
    for (const bool varying : {false, true}) {
      const std::string text = fmt::format(R"(kernel @k(%s: in {0}, %y: out u32) threadgroup exact {{
  %i = grid_thread_id : index
  %b = load %s[{3}] : {0}
  %r = for %j = {1}:{0} to {2}:{0} step %b carry(%c = 0:u32) : u32 {{
    %c2 = add %c, 1:u32 : u32
    yield %c2
  }}
  store %y[%i], %r
}})",
                                           type, first, last, varying ? "%i" : "0");
      Argument steps = type == "u8"    ? buffer(std::vector<u8>(64, 3))
                       : type == "i64" ? buffer(std::vector<i64>(64, 3))
                                       : buffer(std::vector<u32>(64, 3));
      compare(text, exec::geometry(1, 64), {steps, zeros<u32>(64)});
    }
  }
}

/// A chain of ops long enough to be done packet by packet, from %a and %b to the name returned.
std::string chain(std::string& text, const std::string& name, const std::string& a, const std::string& b, u32 length) {
  std::string last = a;
  for (u32 i = 0; i < length; ++i) {
    const std::string next = fmt::format("%{}{}", name, i);
    if (i % 3 == 0) text += fmt::format("    {} = fma {}, 0.75:f32, {} : f32\n", next, last, b);
    if (i % 3 == 1) text += fmt::format("    {} = max {}, {} : f32\n", next, last, a);
    if (i % 3 == 2) text += fmt::format("    {} = sub {}, 0.5:f32 : f32\n", next, last);
    last = next;
  }
  return last;
}

// Runs beside simdgroup ops, in loops of equal and of unequal trips, under masks, with stores, and values that enter
// and leave them: uniform, counted, bools and floats.
std::string long_runs(const char* start, const char* end, u32 length) {
  std::string text =
      fmt::format(R"(kernel @k(%x: in f32, %u: in u32, %y: out f32, %z: out f16, %v: out u32) threadgroup exact {{
  %i = grid_thread_id : index
  %l = lane_id : index
  %g = group_id<x> : index
  %start = {}
  %q = load %u[%i] : u32
  %mine = load %x[%i] : f32
  %sum, %top = for %j = %start to {} step 32 carry(%acc = 0.0:f32, %most = %mine) : f32, f32 {{
    %s = load %x[%g] : f32
    %k = load %u[%j] : u32
    %at = cast %k : index
    %a = load %x[%at] : f32
    %b = load %x[%j] : f32
    %c = add %b, %s : f32
)",
                  start, end);
  const auto last = chain(text, "m", "%a", "%c", length);
  text += fmt::format(R"(    %n = add %acc, {0} : f32
    %better = gt {0}, %most : bool
    %p = select %better, {0}, %most : f32
    yield %n, %p
  }}
  %all = simd.reduce<sum> %sum : f32
  %odd = and %q, 1:u32 : u32
  %o = eq %odd, 1:u32 : bool
  %r = if %o : f32 {{
    %at2 = cast %q : index
    %d = load %x[%at2] : f32
)",
                      last);
  const auto inner = chain(text, "n", "%d", "%top", length);
  text += fmt::format(R"(    store %v[%at2], %q
    yield {}
  }} else {{
    yield %top
  }}
  %o2 = simd.any %o : bool
  %t = select %o2, %r, %all : f32
  %w = add %t, %all : f32
  store %y[%i], %w
  %h = cast %r : f16
  store %z[%i], %h
}}
)",
                      inner);
  return text;
}

TEST(Runs, LongOnesGoPacketByPacketWithTheSameBits) {
  for (const char* start : {"add %l, 0 : index", "add %l, 32 : index", "add %l, 3 : index"})
    for (const char* end : {"96", "101"})
      for (const u32 length : {6u, 240u}) {
        SCOPED_TRACE(fmt::format("from {} to {}, {} ops", start, end, length));
        std::vector<u32> targets_of(256);
        for (u32 i = 0; i < 256; ++i) targets_of[i] = (i * 37 + 11) % 256;  // each once: no two lanes store to one
        compare(long_runs(start, end, length), {{2, 1, 1}, {64, 1, 1}, 0},
                {buffer(floats(256)), buffer(targets_of), zeros<f32>(128), zeros<u16>(128), zeros<u32>(256)});
        if (HasFailure()) return;
      }
}

TEST(Runs, LongOnesAreWrittenOnceForTheSimdgroup) {
  const auto instructions = [&](u32 length) {
    const ir::Kernel k = ir::parse(long_runs("add %l, 0 : index", "96", length));
    return compile(k, {64, 1, 1}, host_target(), {.use_disk = false})->lowered_instructions;
  };
  // Twice 600 ops more, of at most six instructions each: unrolled over two to eight packets they would be more.
  const u64 most = u64{2} * 600 * 6;
  EXPECT_LT(instructions(900) - instructions(300), most);
}

// Vectors of elements a lane: neighbours, strided and scattered, with and without a mask.
TEST(Memory, VectorsOfEveryShapeAreMovedWhole) {
  struct Shape {
    DType elem;
    u32 n;
  };
  for (const auto& [elem, n] : {Shape{DType::f32, 2},
                                {DType::f32, 4},
                                {DType::f32, 8},
                                {DType::f16, 2},
                                {DType::f16, 4},
                                {DType::f16, 8},
                                {DType::u8, 4},
                                {DType::u8, 8},
                                {DType::f64, 2},
                                {DType::u64, 2},
                                {DType::u64, 4},
                                {DType::u32, 4}})
    for (const char* place : {"mul %i, N", "mul %k, N"})
      for (const u32 below : {0u, 17u}) {
        const std::string type = fmt::format("{}x{}", dtype_name(elem), n), one(dtype_name(elem));
        std::string at(place);
        at.replace(at.find('N'), 1, std::to_string(n));
        std::string text = fmt::format(
            R"(kernel @k(%x: in {0}, %u: in u32, %y: out {0}, %z: out {0}) threadgroup exact {{
  %i = grid_thread_id : index
  %w = load %u[%i] : u32
  %k = cast %w : index
  %at = {2} : index
  %away = mul %i, {3} : index
  %c = {4}
  if %c {{
    %v = load %x[%at] : {1}
)",
            one, type, at, n, below ? fmt::format("lt %w, {}:u32 : bool", below) : std::string("ge %w, 0:u32 : bool"));
        std::string parts;
        for (u32 i = 0; i < n; ++i) {
          text += fmt::format("    %e{0} = vec.extract<{1}> %v : {2}\n", i, n - 1 - i, one);
          parts += fmt::format("{}%e{}", i ? ", " : "", i);
        }
        text += fmt::format("    %r = vec.make {0} : {1}\n    store %y[%at], %r\n    store %z[%away], %v\n  }}\n}}\n",
                            parts, type);
        SCOPED_TRACE(text);
        std::vector<u32> order(64);
        for (u32 i = 0; i < 64; ++i) order[i] = (i * 37 + 11) % 64;
        const std::size_t bytes = std::size_t{64} * n * dtype_size(elem);
        std::vector<u8> data(bytes);
        for (std::size_t i = 0; i < bytes; ++i) data[i] = static_cast<u8>(i * 7 % 53 + 1);
        compare(text, {{1, 1, 1}, {64, 1, 1}, 0}, {buffer(data), buffer(order), zeros<u8>(bytes), zeros<u8>(bytes)});
        if (HasFailure()) return;
      }
}

TEST(Groups, StridedReductionsWithBarriers) {
  for (const u32 threads : {32u, 64u, 96u, 256u, 1024u})
    for (const u32 n : {1u, 33u, 700u, 2048u}) {
      SCOPED_TRACE(fmt::format("{} threads, {} columns", threads, n));
      compare(R"(kernel @softmax_like(%x: in f32, %y: out f32, %n: scalar u32) threadgroup exact {
  %g = group_id<x> : index
  %m = cast %n : index
  %row = mul %g, %m : index
  %t = thread_id : index
  %s = group_size : index
  %e = shared.new<2048> : shared f32
  %top = for %i = %t to %m step %s carry(%a = -inf:f32) : f32 {
    %at = add %row, %i : index
    %v = load %x[%at] : f32
    %b = max %a, %v : f32
    yield %b
  }
  %peak = group.reduce<max> %top : f32
  %sum = for %is = %t to %m step %s carry(%as = 0.0:f32) : f32 {
    %ats = add %row, %is : index
    %vs = load %x[%ats] : f32
    %d = sub %vs, %peak : f32
    %q = mul %d, %d : f32
    store %e[%is], %q
    %bs = add %as, %q : f32
    yield %bs
  }
  %total = group.reduce<sum> %sum : f32
  %inv = recip %total : f32
  barrier
  for %io = %t to %m step %s {
    %ato = add %row, %io : index
    %back = sub %m, %io : index
    %last = sub %back, 1 : index
    %vo = load %e[%last] : f32
    %o = mul %vo, %inv : f32
    store %y[%ato], %o
  }
})",
              exec::geometry(3, threads), {buffer(floats(n * 3)), zeros<f32>(n * 3), scalar<u32>(n)});
      if (HasFailure()) return;
    }
}

class Reductions : public ::testing::TestWithParam<std::tuple<DType, int>> {};
TEST_P(Reductions, EveryKindInBothScopes) {
  const auto [elem, kind] = GetParam();
  const auto name = ir::name(static_cast<ir::ReduceKind>(kind));
  const auto type = dtype_name(elem);
  for (const u32 threads : {32u, 96u, 1024u}) {
    if (threads == 96 && elem != DType::f32) continue;
    if (threads == 1024 && kind % 2) continue;
    compare(
        fmt::format(
            R"(kernel @k(%x: in {0}, %y: out {0}, %z: out {0}, %s: out {0}, %e: out {0}, %h: out {0}, %j: out {0}) threadgroup exact {{
  %i = grid_thread_id : index
  %v = load %x[%i] : {0}
  %a = simd.reduce<{1}> %v : {0}
  store %y[%i], %a
  %c = simd.scan<{1}> %v : {0}
  store %s[%i], %c
  %d = simd.scan<{1}, exclusive> %v : {0}
  store %e[%i], %d
  %b = group.reduce<{1}> %v : {0}
  store %z[%i], %b
  %f = group.scan<{1}> %v : {0}
  store %h[%i], %f
  %g = group.scan<{1}, exclusive> %v : {0}
  store %j[%i], %g
}})",
            type, name),
        exec::geometry(2, threads),
        {packed(elem, interesting(elem, threads * 2, 5)), packed(elem, std::vector<u64>(threads * 2)),
         packed(elem, std::vector<u64>(threads * 2)), packed(elem, std::vector<u64>(threads * 2)),
         packed(elem, std::vector<u64>(threads * 2)), packed(elem, std::vector<u64>(threads * 2)),
         packed(elem, std::vector<u64>(threads * 2))});
    if (HasFailure()) return;
  }
}
std::vector<std::tuple<DType, int>> reductions() {
  std::vector<std::tuple<DType, int>> v;
  for (const DType t : {DType::i8, DType::u8, DType::i16, DType::u16, DType::i32, DType::u32, DType::i64, DType::u64,
                        DType::f16, DType::bf16, DType::f32, DType::f64})
    for (int k = 0; k < 7; ++k)
      if (!is_float(t) || k < 4) v.push_back({t, k});
  return v;
}
INSTANTIATE_TEST_SUITE_P(Types, Reductions, ::testing::ValuesIn(reductions()), [](const auto& p) {
  return fmt::format("{}_{}", dtype_name(std::get<0>(p.param)), static_cast<int>(std::get<1>(p.param)));
});

TEST(Simd, ShufflesAndVotes) {
  for (const std::string type : {"f32", "u8", "i64", "f16"}) {
    const DType elem = dtype_from_name(type);
    const std::size_t n = 128;
    const auto out = packed(elem, std::vector<u64>(n));
    compare(
        fmt::format(
            R"(kernel @k(%x: in {0}, %u: in u32, %a: out {0}, %b: out {0}, %c: out {0}, %d: out {0}, %e: out {0}, %f: out u32, %g: out u32, %h: out {0}) threadgroup exact {{
  %i = grid_thread_id : index
  %v = load %x[%i] : {0}
  %w = load %u[%i] : u32
  %k = cast %w : index
  %0 = simd.shuffle_xor<5> %v : {0}
  store %a[%i], %0
  %1 = simd.shuffle_up<3> %v : {0}
  store %b[%i], %1
  %2 = simd.shuffle_down<17> %v : {0}
  store %c[%i], %2
  %3 = simd.shuffle %v, %k : {0}
  store %d[%i], %3
  %4 = simd.broadcast %v, 9 : {0}
  store %e[%i], %4
  %p = gt %w, 15:u32 : bool
  %5 = simd.ballot %p : u32
  store %f[%i], %5
  %q = lt %w, 31:u32 : bool
  %6 = simd.any %p : bool
  %7 = simd.all %q : bool
  %8 = group.any %p : bool
  %9 = group.all %q : bool
  %m = cast %6 : u32
  %o = cast %7 : u32
  %r = cast %8 : u32
  %s = cast %9 : u32
  %o2 = shl %o, 1:u32 : u32
  %r2 = shl %r, 2:u32 : u32
  %s2 = shl %s, 3:u32 : u32
  %t = or %m, %o2 : u32
  %t2 = or %r2, %s2 : u32
  %t3 = or %t, %t2 : u32
  store %g[%i], %t3
  %z = group.broadcast<37> %v : {0}
  store %h[%i], %z
}})",
            type),
        exec::geometry(2, 64),
        {packed(elem, interesting(elem, n, 9)), buffer(words(n, 32)), out, out, out, out, out, zeros<u32>(n),
         zeros<u32>(n), out});
  }
}

TEST(Memory, SharedArraysAliasesAndViews) {
  compare(R"(kernel @k(%x: in u8, %y: out f32, %z: out u16) threadgroup exact {
  %t = thread_id : index
  %i = grid_thread_id : index
  %f = view<4> %x : global f32
  %s = shared.new<256> : shared f32
  %a = shared.alias<128> %s : shared u16
  %v = load %f[%i] : f32
  store %s[%t], %v
  barrier
  %n = group_size : index
  %r = sub %n, %t : index
  %r1 = sub %r, 1 : index
  %w = load %s[%r1] : f32
  store %y[%i], %w
  %h = load %a[%t] : u16
  store %z[%i], %h
})",
          exec::geometry(2, 64), {buffer(floats(129)), zeros<f32>(128), zeros<u16>(128)});
}

TEST(Memory, VectorsThreadArraysAndGuardedLoads) {
  for (const std::string type : {"f32", "f16", "u8", "f64"}) {
    const DType elem = dtype_from_name(type);
    const std::size_t n = 96;
    compare(fmt::format(R"(kernel @k(%x: in {0}, %u: in u32, %y: out {0}, %z: out {0}, %w: out {0}) threadgroup exact {{
  %i = grid_thread_id : index
  %four = mul %i, 4 : index
  %v = load %x[%four] : {0}x4
  %e = vec.extract<2> %v : {0}
  %q = vec.insert<0> %v, %e : {0}x4
  store %y[%four], %q
  %k = load %u[%i] : u32
  %j = cast %k : index
  %j4 = mul %j, 4 : index
  %g = load %x[%j4] : {0}x4
  %a = array.new<8> : thread {0}
  for %m = 0 to 8 step 1 {{
    %at = add %m, %i : index
    %in = lt %at, 50 : bool
    %o = load.or %x[%at], %in, %e : {0}
    store %a[%m], %o
  }}
  %d = rem %j, 8 : index
  %s = load %a[%d] : {0}
  %c = lt %k, 40:u32 : bool
  %p = load.or %x[%j], %c, %s : {0}
  store %z[%i], %p
  if %c {{
    %h = vec.make %s, %p : {0}x2
    %i2 = mul %i, 2 : index
    store %w[%i2], %h
  }}
}})",
                        type),
            exec::geometry(2, 48),
            {packed(elem, interesting(elem, n * 4, 2)), buffer(words(n, 96)), packed(elem, std::vector<u64>(n * 4)),
             packed(elem, std::vector<u64>(n)), packed(elem, std::vector<u64>(n * 2))});
  }
}

TEST(Memory, Atomics) {
  for (const std::string type : {"u32", "i32", "f32", "u64", "i16", "f16"}) {
    const DType elem = dtype_from_name(type);
    // Sums of small integers are exact in any order.
    std::vector<u64> values(256);
    const auto raw = words(256, 6);
    for (std::size_t i = 0; i < 256; ++i) {
      const f32 f = static_cast<f32>(raw[i]);
      values[i] = elem == DType::f32 ? std::bit_cast<u32>(f) : elem == DType::f16 ? f32_to_f16_bits(f) : raw[i];
    }
    compare(
        fmt::format(
            R"(kernel @k(%x: in {0}, %u: in u32, %y: inout {0}, %z: inout {0}, %w: inout {0}, %q: out {0}) threadgroup exact {{
  %i = grid_thread_id : index
  %t = thread_id : index
  %v = load %x[%i] : {0}
  %k = load %u[%i] : u32
  %j = cast %k : index
  %0 = atomic.rmw<add, relaxed, grid> %y[%j], %v : {0}
  %1 = atomic.rmw<max, relaxed, grid> %z[%j], %v : {0}
  %c = lt %k, 4:u32 : bool
  if %c {{
    %2 = atomic.rmw<min, relaxed, grid> %w[%j], %v : {0}
  }}
  %s = shared.new<8> : shared {0}
  %first = lt %t, 8 : bool
  if %first {{
    %zero = sub %v, %v : {0}
    store %s[%t], %zero
  }}
  barrier
  %3 = atomic.rmw<add, relaxed, threadgroup> %s[%j], %v : {0}
  barrier
  %4 = load %s[%j] : {0}
  store %q[%i], %4
}})",
            type),
        exec::geometry(2, 128),
        {packed(elem, values), buffer(words(256, 8)), packed(elem, std::vector<u64>(8)),
         packed(elem, std::vector<u64>(8)), packed(elem, std::vector<u64>(8, values[0])),
         packed(elem, std::vector<u64>(256))});
    if (HasFailure()) return;
  }
}

TEST(Groups, BarriersInUniformLoopsAndBranches) {
  for (const u32 threads : {32u, 64u, 128u})
    compare(R"(kernel @k(%x: in f32, %y: out f32, %n: scalar u32) threadgroup exact {
  %t = thread_id : index
  %i = grid_thread_id : index
  %s = shared.new<128> : shared f32
  %m = cast %n : index
  %g = group_id<x> : index
  %size = group_size : index
  %v = load %x[%i] : f32
  %c = eq %g, 1 : bool
  %r, %u = for %j = 0 to %m step 1 carry(%a = %v, %b = 1.0:f32) : f32, f32 {
    store %s[%t], %a
    barrier
    %odd = if %c : f32 {
      %t1 = add %t, 1 : index
      %w = rem %t1, %size : index
      %l = load %s[%w] : f32
      barrier
      yield %l
    } else {
      %p = group.reduce<sum> %a : f32
      yield %p
    }
    barrier
    %h = mul %odd, 0.5:f32 : f32
    %k = add %h, %b : f32
    %b2 = add %b, 0.125:f32 : f32
    yield %k, %b2
  }
  %o = add %r, %u : f32
  store %y[%i], %o
})",
            exec::geometry(3, threads), {buffer(floats(threads * 3)), zeros<f32>(threads * 3), scalar<u32>(5)});
}

TEST(Ids, EveryIdInThreeDimensions) {
  for (const Dim3 threads : {Dim3{8, 4, 2}, Dim3{64, 1, 1}, Dim3{5, 3, 2}, Dim3{32, 2, 1}, Dim3{1, 64, 1}}) {
    const u64 n = threads.count() * 2 * 3 * 2;
    std::string body = "  %i = grid_thread_id : index\n  %s = mul %i, 20 : index\n";
    int at = 0;
    for (const std::string op :
         {"thread_id",    "thread_pos<x>", "thread_pos<y>",   "thread_pos<z>",  "group_id<x>",
          "group_id<y>",  "group_id<z>",   "group_count<x>",  "group_count<y>", "group_size",
          "group_dim<x>", "group_dim<y>",  "grid_pos<x>",     "grid_pos<y>",    "grid_pos<z>",
          "lane_id",      "simdgroup_id",  "simdgroup_count", "simd_width",     "grid_thread_id"})
      body += fmt::format(
          "  %v{0} = {1} : index\n  %p{0} = add %s, {0} : index\n  %c{0} = cast %v{0} : u32\n  store %y[%p{0}], "
          "%c{0}\n",
          at, op),
          ++at;
    compare("kernel @k(%y: out u32) threadgroup exact {\n" + body + "}\n", {{2, 3, 2}, threads, 0},
            {zeros<u32>(n * 20)});
    if (HasFailure()) return;
  }
}

TEST(Tiles, ProductsLoadsStoresAndElements) {
  for (const std::string scope : {"threadgroup", "simdgroup"})
    for (const std::string type : {"f32", "f16", "bf16"})
      for (const std::string flags : {"", ", bt", ", at", ", at, bt"})
        for (const auto& [m, n, k] : {std::tuple{16, 16, 16}, std::tuple{13, 22, 9}, std::tuple{32, 64, 8}}) {
          const bool at = flags.find("at") != std::string::npos, bt = flags.find("bt") != std::string::npos;
          const DType elem = dtype_from_name(type);
          // All layouts in f32, the mixed one in the formats that are widened.
          if (type != "f32" && flags != ", at, bt" && m != 13) continue;
          SCOPED_TRACE(fmt::format("{} {} {} {}x{}x{}", scope, type, flags, m, n, k));
          const std::size_t a = static_cast<std::size_t>(m * k), b = static_cast<std::size_t>(n * k),
                            c = static_cast<std::size_t>(m * n);
          const u32 groups = 2, sims = scope == "simdgroup" ? 2 : 1;
          std::vector<u64> va(a * groups * sims), vb(b);
          const auto fa = floats(va.size(), 3), fb = floats(vb.size(), 4);
          const auto bits = [&](f32 x) {
            return u64{elem == DType::f16    ? f32_to_f16_bits(x)
                       : elem == DType::bf16 ? f32_to_bf16_bits(x)
                                             : std::bit_cast<u32>(x)};
          };
          for (std::size_t i = 0; i < va.size(); ++i) va[i] = bits(fa[i]);
          for (std::size_t i = 0; i < vb.size(); ++i) vb[i] = bits(fb[i]);
          compare(fmt::format(
                      R"(kernel @k(%a: in {0}, %b: in {0}, %c: in f32, %y: out f32, %h: out {0}) threadgroup exact {{
  %g = group_id<x> : index
  %sg = simdgroup_id : index
  %t = tile.new<{0}, {1}> : tile f32[{3} x {4}]
  %gs = mul %g, {10} : index
  %u = {11}
  %gw = add %gs, %u : index
  %ao = mul %gw, {6} : index
  %yo = mul %gw, {8} : index
  tile.load %t, %c, 0, {4}, {12}, {13}
  tile.mma<{5}{2}> %t, %a, %ao, {9}, %b, 0, {7}
  %e = tile.get %t, 1 : f32
  %row = tile.row %t, 1 : index
  %rf = cast %row : f32
  %e2 = add %e, %rf : f32
  barrier
  tile.set %t, 1, %e2
  barrier
  tile.mma<{5}{2}> %t, %a, %ao, {9}, %b, 0, {7}
  tile.store %t, %y, %yo, {4}, {3}, {4}
  tile.store %t, %h, %yo, {4}, {12}, {13}
}})",
                      type, scope, flags, m, n, k, a, bt ? k : n, c, at ? m : k, sims,
                      sims == 2 ? "add %sg, 0 : index" : "sub %sg, %sg : index", m - 2, n - 1),
                  exec::geometry(groups, 64),
                  {packed(elem, va), packed(elem, vb), buffer(floats(c, 8)), zeros<f32>(c * groups * sims),
                   packed(elem, std::vector<u64>(c * groups * sims))});
          if (HasFailure()) return;
        }
}

TEST(Refusal, SimdOpsNeedWholeSimdgroups) {
  const auto k = ir::parse(
      "kernel @k(%y: out u32) threadgroup exact {\n  %i = thread_id : index\n  %v = cast %i : u32\n  %s = "
      "simd.reduce<sum> %v : u32\n  store %y[%i], %s\n}\n");
  try {
    compile(k, {33, 1, 1}, named_target("sse2"), {.use_disk = false});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), "CPU04");
  }
}

}  // namespace
}  // namespace iron::cpu::test
