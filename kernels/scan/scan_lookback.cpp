// Prefix sum of one long array in a single pass over the data: decoupled look-back between threadgroups.
#include "iron/dsl.h"
#include "iron/library.h"

namespace iron::kernels {

namespace {

// A tile's word: a flag in the upper half, a value of 32 bits in the lower. Both change in one store.
constexpr u64 flag_total = u64{1} << 32;   // the value is the sum of the tile alone
constexpr u64 flag_prefix = u64{2} << 32;  // the value is the sum of all elements up to the tile's end
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

// Clears what a scan leaves behind: the words of all tiles and the ticket.        state: [tiles] u64, counter: [1] u32
struct ResetLookback {
  InOut<u64> state;
  InOut<u32> counter;

  Grid grid() const { return Grid::for_items(state.size()); }

  void operator()() const {
    const auto i = grid_thread_id();
    state[i] = 0u;
    if_(i == 0u) { counter[0] = 0u; }
  }
};

// y[i] = sum of x[0..i]        x, y: [n]; state: [ceil(n / tile)] zero words, counter: [1] zero
// Merrill and Garland 2016: tiles are numbered by tickets, so that a tile waits only for tiles that have started. A
// tile publishes its sum, then the first simdgroup walks back over its predecessors, 32 at a time, adding their sums
// until one knows its prefix.
template <class T>
struct ScanLookback {
  static constexpr Mode mode = Mode::Threadgroup;
  struct Spec {
    u32 per_thread = 4, threads = 256;
    u32 tile() const { return per_thread * threads; }
    std::string spec_text() const { return std::to_string(per_thread) + "x" + std::to_string(threads); }
  } spec;

  In<T> x;
  Out<T> y;
  InOut<u64> state;
  InOut<u32> counter;
  Scalar<u32> n;

  Grid grid() const { return {Threadgroups{static_cast<u32>(state.size())}, Threads{spec.threads}}; }

  void operator()() const {
    const auto number = ticket(counter[0]);
    const auto tile = bounded(number, 0u, threadgroups() - 1u);
    const auto first = tile * spec.tile() + thread_id() * spec.per_thread;
    std::vector<Val<T>> run;  // sums of this thread's elements up to each
    for (u32 k = 0; k < spec.per_thread; ++k) {
      const auto v = x.load_or(first + k < n, first + k, T{0});
      run.push_back(k == 0 ? v : run.back() + v);
    }
    const auto before = threadgroup_scan_sum_exclusive(run.back());
    const auto total = threadgroup_broadcast(before + run.back(), spec.threads - 1);

    Var<T> prefix{T{0}};  // sum of all earlier tiles, of the first simdgroup
    if_(simdgroup_id() == 0u) {
      const auto is_first = tile == 0u;
      const auto leader = lane_id() == 0u;
      if_(leader) {
        const auto flag = select<u64>(is_first, flag_prefix, flag_total);
        atomic_store(state[tile], word_of(flag, total), Order::release);
      }
      Var<bool> done{is_first};
      for (auto hop : range(0u, tile / 32u + 1u).until(done)) {
        const auto distance = hop * 32u + lane_id() + 1u;
        Var<u64> word{flag_prefix};  // before the first tile: a prefix of nothing
        if_(distance <= tile) {
          const Val seen{wait_until_not(state[tile - distance], flag_mask, 0u)};
          word = seen;
        }
        const Val<u64> found = word;
        const auto prefixes = simd_ballot((found & flag_prefix) != 0u);
        const auto nearest = ctz(prefixes);  // 32 if none of these knows its prefix
        prefix += simd_sum(select<T>(cast<u32>(lane_id()) <= nearest, value_of<T>(found), T{0}));
        done = prefixes != 0u;
      }
      if_(leader && !is_first) {
        atomic_store(state[tile], word_of(constant<u64>(flag_prefix), prefix + total), Order::release);
      }
    }
    const auto start = threadgroup_broadcast(prefix, 0) + before;
    for (u32 k = 0; k < spec.per_thread; ++k) if_(first + k < n) {
        y[first + k] = start + run[k];
      }
  }
};

template <class T>
Case scan(Gen& g, const Array<T>& x) {
  const auto n = static_cast<u32>(x.size()), tile = ScanLookback<T>{unbound<ScanLookback<T>>()}.spec.tile();
  const auto y = g.output<T>(n);
  const auto state = g.output<u64>((n + tile - 1) / tile);
  const auto counter = g.output<u32>(1);
  Case c{ResetLookback{.state = state, .counter = counter}};
  c.then(ScanLookback<T>{.spec = {}, .x = x, .y = y, .state = state, .counter = counter, .n = n})
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
Case random(Gen& g, u32 n) {
  if constexpr (std::same_as<T, u32>)
    return scan(g, g.integers<u32>(0, 0xffffffff, n));
  else
    return scan(g, g.uniform<f32>(-0.5, 1.0, n));
}

}  // namespace

void register_scan_lookback(Registry& r) {
  auto k = r.kernel<ScanLookback>("scan_lookback", "scan", dtypes<f32, u32>);
  k.doc(
      "Inclusive prefix sum of one array [n] in one pass, by decoupled look-back; state and counter are zero before "
      "the launch. "
      "u32 wraps.");
  k.shapes("x, y: [n]");
  k.determinism(
      "u32: bitwise. f32: a tile adds whole prefixes or single sums of its predecessors, whichever it finds, so that "
      "the "
      "rounding depends on the schedule");
  constexpr auto limit = tolerance(5e-5, 0, 0);
  k.test("several tiles", limit, []<class T>(Gen& g) { return random<T>(g, 5 * 1024 + 77); });
  k.test("more than 32 predecessors", limit, []<class T>(Gen& g) { return random<T>(g, 35 * 1024); });
  k.test("one short tile", limit, []<class T>(Gen& g) { return random<T>(g, 301); });
  k.test("one element", limit, []<class T>(Gen& g) { return random<T>(g, 1); });
  k.bench("4 Mi", []<class T>(Gen& g) { return random<T>(g, 4 << 20); });
}

}  // namespace iron::kernels
