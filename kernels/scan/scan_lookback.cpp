// Prefix sum of one long array in a single pass over the data: decoupled look-back between threadgroups.
#include "iron/dsl.h"
#include "iron/library.h"

namespace iron::kernels {

namespace {

// The word of a tile or span: a flag in the upper half, a value of 32 bits in the lower. Both change in one store.
constexpr u64 flag_total = u64{1} << 32;   // the value is the sum of the tile or span alone
constexpr u64 flag_prefix = u64{2} << 32;  // the value is the sum of all elements up to the span's end
constexpr u64 flag_mask = flag_total | flag_prefix;

template <class T>
Val<u64> word_of(const Val<u64>& flag, const Val<T>& value) {
  if constexpr (std::same_as<T, u32>)
    return flag | cast<u64>(value);
  else
    return flag | cast<u64>(bitcast<u32>(value));
}
template <class T>
Val<T> value_of(const Val<u64>& word) {
  if constexpr (std::same_as<T, u32>)
    return cast<u32>(word);
  else
    return bitcast<T>(cast<u32>(word));
}

// Clears what a scan leaves behind: the words of all tiles and spans, and the ticket.
// state: [tiles] u64, spans: [ceil(tiles / 32)] u64, counter: [1] u32
struct ResetLookback {
  InOut<u64> state, spans;
  InOut<u32> counter;

  Grid grid() const { return Grid::for_items(state.size()); }

  void operator()() const {
    const auto i = grid_thread_id();
    state[i] = 0u;
    if_(i < spans.length()) { spans[i] = 0u; }
    if_(i == 0u) { counter[0] = 0u; }
  }
};

// y[i] = sum of x[0..i]        x, y: [n]; state: [ceil(n / tile)], spans: [ceil(n / (32 tile))] and counter: [1], all
// zero Decoupled look-back (Merrill and Garland 2016) in a fixed order: tiles are numbered by tickets, so that a tile
// waits only for tiles that have started. 32 tiles are a span. A tile publishes its sum and adds those of the earlier
// tiles of its span by the ladder of R4; the sums of the spans before it are one chain, span by span, from the nearest
// one whose chain is known already: whichever that is, the additions are the same ones. Within a tile: a lane's 4
// neighbouring elements, then the 32 lanes, then the pieces of 128 elements of a simdgroup one after another, then the
// simdgroups (R4).
template <class T>
struct ScanLookback {
  static constexpr Mode mode = Mode::Threadgroup;
  static constexpr u32 width = 4, piece = 32 * width;

  In<T> x;
  Out<T> y;
  InOut<u64> state, spans;
  InOut<u32> counter;
  Scalar<u32> n;
  u32 pieces = 24, group_threads = 128;

  u32 tile_size() const { return pieces * width * group_threads; }
  Grid grid() const { return {Threadgroups{static_cast<u32>(state.size())}, Threads{group_threads}}; }

  void operator()() const {
    const auto number = ticket(counter[0]);
    const auto tile = bounded(number, 0u, threadgroups() - 1u);
    const auto tile_first = tile * tile_size();
    const auto whole = tile_first + tile_size() <= n;
    const auto first = tile_first + simdgroup_id() * (pieces * piece) + lane_id() * width;

    Vars<T> v(pieces * width, T{0});
    if_(whole) {
      std::vector<Vec<T, width>> parts;
      for (u32 p = 0; p < pieces; ++p) parts.push_back(load_vec<width>(x, first + p * piece));
      for (u32 i = 0; i < pieces * width; ++i) v[i] = parts[i / width][i % width];
    }
    else {
      for (u32 i = 0; i < pieces * width; ++i) {
        const auto at = first + i / width * piece + i % width;
        v[i] = x.load_or(at < n, at, T{0});
      }
    }
    // Sums within the simdgroup: of the lane's elements up to each, of the lanes before it, of the pieces before.
    std::vector<Val<T>> run, lanes_before, pieces_before;
    for (u32 i = 0; i < pieces * width; ++i) {
      const Val<T> value = v[i];
      run.push_back(i % width == 0 ? value : run.back() + value);
    }
    Var<T> simdgroup_sum{T{0}};
    for (u32 p = 0; p < pieces; ++p) {
      const Val<T> lane_sum = run[p * width + width - 1];
      lanes_before.push_back(simd_scan_sum_exclusive(lane_sum));
      pieces_before.push_back(simdgroup_sum);
      simdgroup_sum += simd_broadcast(lanes_before.back() + lane_sum, 31);
    }
    // One lane a simdgroup takes part with its sum: x + 0 is x.
    const Val<T> whole_sum = simdgroup_sum;
    const auto part = select<T>(lane_id() == 0u, whole_sum, T{0});
    const auto scanned = threadgroup_scan_sum_exclusive(part);
    const auto simdgroups_before = simd_broadcast(scanned, 0);
    const auto total = threadgroup_broadcast(scanned + part, group_threads - 1);

    Var<T> earlier{T{0}};  // sum of all earlier tiles, of the first simdgroup
    if_(simdgroup_id() == 0u) { earlier = look_back(tile, total); }
    const auto prefix = threadgroup_broadcast(earlier, 0);
    std::vector<Val<T>> results;
    for (u32 p = 0; p < pieces; ++p) {
      const Val<T> start = prefix + (simdgroups_before + (pieces_before[p] + lanes_before[p]));
      for (u32 j = 0; j < width; ++j) results.push_back(start + run[p * width + j]);
    }
    if_(whole) {
      for (u32 p = 0; p < pieces; ++p) {
        const auto* r = &results[p * width];
        store_vec(y, first + p * piece, Vec<T, width>(r[0], r[1], r[2], r[3]));
      }
    }
    else {
      for (u32 i = 0; i < pieces * width; ++i) {
        const auto at = first + i / width * piece + i % width;
        if_(at < n) { y[at] = results[i]; }
      }
    }
  }

 private:
  // The sum of all tiles before this one, for one simdgroup.
  Val<T> look_back(const Val<Index>& tile, const Val<T>& total) const {
    const auto span = tile / 32u, place = tile - span * 32u, lane = lane_id();
    const auto leader = lane == 0u, ends_span = place == 31u;
    if_(leader) { atomic_store(state[tile], word_of(constant<u64>(flag_total), total), Order::release); }

    Var<T> sum_of_tile{T{0}};
    if_(lane < place) {
      const Val seen{wait_until_not(state[span * 32u + lane], flag_mask, 0u)};
      sum_of_tile = value_of<T>(seen);
    }
    const Val<T> sums = select<T>(lane == place, total, sum_of_tile);
    const auto scanned = simd_scan_sum_exclusive(sums);
    const auto within_span = simd_shuffle(scanned, cast<u32>(place));
    const auto span_sum = within_span + total;  // where the tile ends its span
    if_(leader && ends_span) {
      const auto flag = select<u64>(span == 0u, flag_prefix, flag_total);
      atomic_store(spans[span], word_of(flag, span_sum), Order::release);
    }

    Var<u64> word{flag_prefix};  // before the first span: a prefix of nothing
    const auto distance = lane + 1u;
    if_(distance <= span) {
      // The farthest one waits for its prefix: one of the 32 has it then.
      const auto awaited = select<u64>(lane == 31u, flag_prefix, flag_mask);
      const Val seen{wait_until_not(spans[span - distance], awaited, 0u)};
      word = seen;
    }
    const Val<u64> found = word;
    const auto nearest = ctz(simd_ballot((found & flag_prefix) != 0u));
    const auto value = value_of<T>(found);
    Var<T> chain{simd_shuffle(value, nearest)};
    for (auto back : range(1u, nearest + 1u)) chain += simd_shuffle(value, cast<u32>(nearest - back));
    const Val<T> before_span = chain;
    if_(leader && ends_span && span != 0u) {
      atomic_store(spans[span], word_of(constant<u64>(flag_prefix), before_span + span_sum), Order::release);
    }
    return before_span + within_span;
  }
};

// Of threads and pieces; 0: as registered.
struct Shape {
  u32 pieces = 0, group_threads = 0;
};
template <class T>
Case scan(Gen& g, const Array<T>& x, Shape shape) {
  const auto y = g.output<T>(x.size());
  auto kernel = unbound<ScanLookback<T>>();
  if (shape.pieces) kernel.pieces = shape.pieces, kernel.group_threads = shape.group_threads;
  const auto n = static_cast<u32>(x.size()), tiles = (n + kernel.tile_size() - 1) / kernel.tile_size();
  const auto state = g.output<u64>(tiles), spans = g.output<u64>((tiles + 31) / 32);
  const auto counter = g.output<u32>(1);
  Case c{ResetLookback{.state = state, .spans = spans, .counter = counter}};
  c.then(ScanLookback<T>{.x = x,
                         .y = y,
                         .state = state,
                         .spans = spans,
                         .counter = counter,
                         .n = n,
                         .pieces = kernel.pieces,
                         .group_threads = kernel.group_threads})
      .moves(u64{n} * 2 * sizeof(T));
  if constexpr (std::same_as<T, u32>) {
    std::vector<u32> want(n);
    u32 all = 0;
    for (u32 i = 0; i < n; ++i) want[i] = all += x[i];
    return c.expect_exact("y", want);
  } else {
    std::vector<f64> want(n);
    f64 all = 0;
    for (u32 i = 0; i < n; ++i) want[i] = all += x.at(i);
    return c.expect("y", std::move(want));
  }
}
template <class T>
Case random(Gen& g, u32 n, Shape shape = {}) {
  if constexpr (std::same_as<T, u32>)
    return scan(g, g.integers<u32>(0, 0xffffffff, n), shape);
  else
    return scan(g, g.uniform<f32>(-0.5, 1.0, n), shape);
}

}  // namespace

void register_scan_lookback(Registry& r) {
  auto k = r.kernel<ScanLookback>("scan_lookback", "scan", dtypes<f32, u32>);
  k.doc(
      "Inclusive prefix sum of one array [n] in one pass, by decoupled look-back over tiles of 12288 elements and "
      "spans "
      "of 32 tiles; state, spans and counter are zero before the launch. u32 wraps.");
  k.shapes("x, y: [n]");
  constexpr auto limit = tolerance(5e-5, 0, 0);
  k.test("several tiles", limit, []<class T>(Gen& g) { return random<T>(g, 3 * 12288 + 77); });
  k.test("several spans", limit, []<class T>(Gen& g) { return random<T>(g, (3 * 32 + 5) * 512 + 1, {2, 64}); });
  k.test("more than 32 spans", limit, []<class T>(Gen& g) { return random<T>(g, 35 * 32 * 128, {1, 32}); });
  k.test("all of a tile but its last element", limit, []<class T>(Gen& g) { return random<T>(g, 12288 - 1); });
  for (const u32 rest : {1u, 2u, 3u}) {
    const std::string less = std::to_string(rest) + " less than a tile of ";
    k.test(less + "512", limit, [rest]<class T>(Gen& g) { return random<T>(g, 512 - rest, {2, 64}); });
    k.test(less + "128", limit, [rest]<class T>(Gen& g) { return random<T>(g, 128 - rest, {1, 32}); });
  }
  k.test("one short tile", limit, []<class T>(Gen& g) { return random<T>(g, 301); });
  k.test("one element", limit, []<class T>(Gen& g) { return random<T>(g, 1); });
  const char* const where = "H200, f32 2^26, microseconds beside 186.5";
  k.rejected("smaller tiles: more of them wait for their predecessors", "4096 elements: 249, 8192: 210", where);
  k.rejected("more threads a tile", "16 pieces of 512 threads: 187.6, 8 of 1024: 203", where);
  k.rejected("the largest tile a simdgroup pair holds", "40 pieces of 64 threads: 182.7, but all 255 registers", where);
  k.bench("4 Mi", []<class T>(Gen& g) { return random<T>(g, 4 << 20); });
}

}  // namespace iron::kernels
