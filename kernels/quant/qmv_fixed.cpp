// int4 matrix times vector with integer products: the vector as fixed point, four codes an instruction.
#include <limits>
#include <vector>

#include "iron/dsl.h"
#include "iron/library.h"
#include "quant/affine_case.h"
#include "registry.h"

namespace iron::kernels {

namespace {

constexpr u32 group = 64;  // codes a scale
constexpr u32 chunk = 32;  // inputs of one exponent; a lane's codes of a turn: one access of 16 bytes
constexpr u32 chunk_words = 4;
constexpr u32 digits = 3;  // bytes an input; with its sign 22 bits are used
constexpr u32 fraction = 20;
// Adding it to a number below 2^21 leaves, in the mantissa, the number + 2^22 and 128 in each of the two lower bytes.
constexpr f32 shifter = 12582912.0f + 0x8080;
constexpr f32 smallest = 0x1p-100f;  // exponents below it would leave no room for the fraction

// The byte `digit` of each of four words, as one word.
inline Val<u32> gathered(const std::vector<Val<u32>>& v, u32 first, u32 step, u32 digit) {
  const auto byte = [&](u32 i) {
    const Val<u32> word = v[first + step * i];
    const u32 from = 8 * digit, to = 8 * i;
    const Val<u32> moved = from > to ? word >> (from - to) : from < to ? word << (to - from) : word;
    return Val<u32>(moved & (0xffu << to));
  };
  const Val<u32> low = byte(0) | byte(1), high = byte(2) | byte(3);
  return low | high;
}

// out[m, n] = sum_k (scales[n, k / 64] * q[n, k] + biases[n, k / 64]) * x[m, k]
// w: int4 codes [N, K], scales, biases: [N, K / 64], x: [M, K], out: [M, N]; K a multiple of 64. A threadgroup turns as
// many inputs as it has threads, times 32, into fixed point: of 32 neighbours each is a whole multiple of 2^-20 of the
// power of two below the largest, so what is within 2^13 of it (bf16), 2^10 (f16) is exact, and the error of the rest
// is that of sums in f32. A simdgroup then takes some rows: a lane 32 codes of each a turn, summed exactly in integers,
// then sum(q * x) * 2^e * scale + bias * sum(x) in f32, chunks ascending, then the lanes by R4. Not finite inputs give
// NaN.
template <class T>
struct AffineQmvFixed {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 width = 16 / sizeof(T);

  In<u32> w;
  In<T> scales, biases, x;
  Out<T> out;
  Scalar<u32> m, n, k;
  u32 rows = 4, warps = 8;

  Grid grid() const {
    return {Threadgroups{(n.value() + rows * warps - 1) / (rows * warps), m.value()}, Threads{32 * warps}};
  }

  // What a lane holds of its rows: the codes of a chunk, their scales and biases.
  struct Ahead {
    Vars<u32> words;
    Vars<T> scale, bias;
    explicit Ahead(u32 rows) : words(rows * chunk_words, 0u), scale(rows, 0.0f), bias(rows, 0.0f) {}
  };

  void operator()() const {
    const u32 threads = 32 * warps;
    const Val<Index> depth(k), height(n), chunks = depth / chunk, vector = threadgroup_id(Axis::y);
    const auto n0 = (threadgroup_id(Axis::x) * warps + simdgroup_id()) * rows;
    std::vector<Val<Index>> row;  // rows beyond the edge repeat the last one; they are not stored
    for (u32 r = 0; r < rows; ++r) row.push_back(min(n0 + r, height - 1));
    Shared<i32> fixed(threads * chunk / 4 * digits);
    Shared<f32> units(threads), totals(threads);

    Ahead ahead(rows);
    fetch(ahead, row, min(lane_id(), chunks - 1), chunks);
    Vars<f32> sums(rows, 0.0f);
    for (auto slab : range(0u, (chunks + (threads - 1)) / threads)) {
      const auto first = slab * threads;
      barrier();
      quantise(vector * depth + min(first + thread_id(), chunks - 1) * chunk, fixed, units, totals);
      barrier();
      const auto left = min(chunks - first, Val<Index>(threads));
      for (auto turn : range(0u, (left + 31u) / 32u)) {
        const auto wanted = turn * 32u + lane_id();
        const auto inside = wanted < left;
        const auto at = min(wanted, left - 1);
        std::vector<std::vector<Val<i32>>> codes(rows), dot(rows);
        std::vector<Val<f32>> scale, bias;
        for (u32 r = 0; r < rows; ++r) {
          for (u32 word = 0; word < chunk_words; ++word) {
            const Val<u32> packed = ahead.words[r * chunk_words + word];
            codes[r].push_back(bitcast<i32>(packed & 0x0f0f0f0fu));
            codes[r].push_back(bitcast<i32>((packed >> 4u) & 0x0f0f0f0fu));
          }
          scale.push_back(cast<f32>(ahead.scale[r])), bias.push_back(cast<f32>(ahead.bias[r]));
          dot[r].emplace_back(Use<i32>(0));
        }
        fetch(ahead, row, min(first + turn * 32u + (lane_id() + 32u), chunks - 1), chunks);
        for (u32 d = digits; d-- > 0;)
          for (u32 half = 0; half < 2; ++half) {
            const auto part = load_vec<4>(fixed, ((2 * d + half) * threads + at) * 4u);
            for (u32 r = 0; r < rows; ++r) {
              if (half == 0 && d + 1 < digits) dot[r].push_back(dot[r].back() << 8);
              for (u32 i = 0; i < 4; ++i) dot[r].push_back(dot4_i8(codes[r][4 * half + i], part[i], dot[r].back()));
            }
          }
        const Val<f32> unit = units[at], total = totals[at];
        for (u32 r = 0; r < rows; ++r) {
          const Val<f32> old = sums[r];
          const Val<f32> added = fma(cast<f32>(dot[r].back()) * unit, scale[r], fma(bias[r], total, old));
          sums[r] = select(inside, added, old);
        }
      }
    }
    for (u32 r = 0; r < rows; ++r) {
      const auto total = simd_sum(sums[r]);
      if_(lane_id() == 0u && n0 + r < height) { out[vector * height + n0 + r] = cast<T>(total); }
    }
  }

  void fetch(Ahead& ahead, const std::vector<Val<Index>>& row, const Val<Index>& at, const Val<Index>& chunks) const {
    for (u32 r = 0; r < rows; ++r) {
      const auto words = load_vec<chunk_words>(w, (row[r] * chunks + at) * chunk_words);
      for (u32 i = 0; i < chunk_words; ++i) ahead.words[r * chunk_words + i] = words[i];
      const auto scale_at = row[r] * (chunks / (group / chunk)) + at / (group / chunk);
      ahead.scale[r] = scales[scale_at], ahead.bias[r] = biases[scale_at];
    }
  }

  // The thread's chunk: its digits, what the lowest one stands for, and the sum of the inputs.
  void quantise(const Val<Index>& first, const Shared<i32>& fixed, const Shared<f32>& units,
                const Shared<f32>& totals) const {
    std::vector<Val<f32>> v, most, even, odd;
    for (u32 i = 0; i < chunk / width; ++i) {
      const auto part = load_vec<width>(x, first + i * width);
      for (u32 j = 0; j < width; ++j) {
        v.push_back(cast<f32>(part[j]));
        auto& sums = v.size() % 2 == 0 ? odd : even;
        sums.push_back(sums.empty() ? v.back() : sums.back() + v.back());
        most.push_back(most.empty() ? abs(v.back()) : max(most.back(), abs(v.back())));
      }
    }
    const Val<u32> exponent = bitcast<u32>(max(most.back(), smallest)) & 0x7f800000u;
    const Val<f32> scale = bitcast<f32>(((254u + fraction) << 23) - exponent);
    std::vector<Val<u32>> bits;
    for (const auto& value : v) bits.push_back(bitcast<u32>(fma(value, scale, shifter)));
    const Val<Index> thread = thread_id();
    for (u32 d = 0; d < digits; ++d)
      for (u32 half = 0; half < 2; ++half) {
        std::vector<Val<i32>> words;
        for (u32 i = 0; i < 4; ++i) {
          // A code word's even codes meet one word, its odd ones another: four from half of the chunk and word 2 * i.
          const u32 at = 4 * half + i;
          const Val<u32> bytes = gathered(bits, 8 * (at / 2) + at % 2, 2, d);
          const Val<u32> biased = d + 1 < digits ? bytes : bytes + 0x40404040u;  // the top byte has 64 + its digit
          words.push_back(bitcast<i32>(biased ^ 0x80808080u));
        }
        store_vec(fixed, ((2 * d + half) * (32 * warps) + thread) * 4u,
                  Vec<i32, 4>(words[0], words[1], words[2], words[3]));
      }
    const Val<bool> finite = most.back() < std::numeric_limits<f32>::infinity();
    units[thread] = select(finite, bitcast<f32>(exponent - (fraction << 23)), std::numeric_limits<f32>::quiet_NaN());
    totals[thread] = even.back() + odd.back();
  }
};

// One infinite input spoils every output.
template <class T>
Case infinite_input(Gen& g) {
  const u32 n = 3, k = 2 * group;
  const auto w = packed_matrix<T>(g, 4, group, n, k);
  const auto x =
      g.from<T>([](u64 i) { return static_cast<T>(i == 70 ? std::numeric_limits<f32>::infinity() : 0.5f); }, u64{k});
  const auto out = g.output<T>(1, n);
  return Case{AffineQmvFixed<T>{
                  .w = w.words, .scales = w.scales, .biases = w.biases, .x = x, .out = out, .m = 1, .n = n, .k = k}}
      .expect("out", std::vector<f64>(n, std::numeric_limits<f64>::quiet_NaN()));
}

}  // namespace

void register_qmv_fixed(Registry& r) {
  auto k = r.kernel<AffineQmvFixed>("qmv_fixed", "quant", dtypes<f32, f16, bf16>);
  k.doc("As qmv, int4 codes [N,K]: inputs as 22-bit fixed point of 32 neighbours, products of bytes, summed exactly.");
  k.shapes("x: [m, k]; out: [m, n]");
  k.test("rows ragged, one step and a part", affine_limit,
         []<class T>(Gen& g) { return int4_product<AffineQmvFixed<T>>(g, group, 2, 35, 1344); });
  k.test("whole steps", affine_limit,
         []<class T>(Gen& g) { return int4_product<AffineQmvFixed<T>>(g, group, 1, 9, 3072); });
  k.test("one row, one group", affine_limit,
         []<class T>(Gen& g) { return int4_product<AffineQmvFixed<T>>(g, group, 1, 1, group); });
  k.test("more inputs than a threadgroup holds", affine_limit,
         []<class T>(Gen& g) { return int4_product<AffineQmvFixed<T>>(g, group, 1, 3, 8192 + 1088); });
  k.test("an infinite input gives NaN", affine_limit, []<class T>(Gen& g) { return infinite_input<T>(g); });
  const char* const where = "H200, bf16 1 x 8192 x 8192, microseconds beside 12.9";
  k.rejected("other rows a simdgroup, simdgroups a threadgroup", "4, 4: 13.6; 4, 16: 13.4; 8, 4: 15.6; 2, 8: 18.0",
             where);
  k.rejected("digits in registers, 32 rows a thread, sums exchanged at the end (2.7 instructions a code, not 3.1)",
             "13.0", where);
  k.bench("1 x 4096 x 4096", []<class T>(Gen& g) { return int4_product<AffineQmvFixed<T>>(g, group, 1, 4096, 4096); });
  k.bench("1 x 8192 x 8192", []<class T>(Gen& g) { return int4_product<AffineQmvFixed<T>>(g, group, 1, 8192, 8192); });
}

}  // namespace iron::kernels
