// Choosing the next token from logits: a draw from the softmax, and the filters before it.
#pragma once

#include <limits>

#include "iron/dsl.h"
#include "rows.h"

namespace iron::kernels {

/// What a filtered logit becomes.
inline constexpr f32 masked_logit = -std::numeric_limits<f32>::infinity();

/// The largest of n logits from `start` on, NaN left out; all threads of the threadgroup arrive.
template <class T>
Val<f32> largest_logit(const In<T>& logits, const Val<Index>& start, const Scalar<u32>& n) {
  Var<f32> largest{masked_logit};
  for (auto i : range(thread_id(), n, threads())) largest = max(largest, cast<f32>(logits[start + i]));
  return threadgroup_max(largest);
}

/// out[r] = the first i with cumulative weight(i) >= uniform[r] * total, weight(i) = e^((logits[r, i] - max) /
/// temperature) logits: [rows, n], out, uniform: [rows] with uniform in [0, 1], temperature: [1], at least 0. The
/// result always has a weight above 0: uniform = 0 gives the first such i, rounding past the end the last. Filtered
/// logits (-inf) and NaN are never drawn; a row of NaN gives 0. Temperature 0 draws among the largest.
/// Each of 256 threads owns a run of consecutive logits: a scan of their sums finds the run, a walk the element.
template <class T>
struct SoftmaxCategoricalSample {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> logits;
  Out<u32> out;
  In<f32> temperature, uniform;
  Scalar<u32> n;

  Grid grid() const { return {Threadgroups{static_cast<u32>(out.size())}, Threads{256}}; }

  void operator()() const {
    const Val<Index> row = threadgroup_id(), start = row * n;
    const Val<f32> heat = temperature[0];
    const Val<f32> top = largest_logit(logits, start, n);
    const auto weight = [&](const Val<Index>& i) {
      const auto x = cast<f32>(logits[start + i]);
      // The largest weigh 1 also where their difference is no number: infinite logits, temperature 0.
      const Val<f32> w = select(x == top, 1.0f, exp((x - top) / heat));
      return Val<f32>(select(w > 0.0f, w, 0.0f));
    };

    const Val<Index> each = ceil_div(n, threads());
    const Val<Index> first = min(thread_id() * each, n), last = min(first + each, n);
    Var<f32> own{0.0f};
    for (auto i : range(first, last)) own += weight(i);
    const Val<f32> own_sum = own;
    const Val<f32> up_to = threadgroup_scan_sum(own_sum), before = threadgroup_scan_sum_exclusive(own_sum);
    const Val<f32> target = uniform[row] * threadgroup_broadcast(up_to, 255);

    Var<u32> hit{0xffffffffu}, last_drawable{0u};
    Var<f32> sum{before};
    for (auto i : range(first, last)) {
      const Val<f32> w = weight(i);
      sum += w;
      const Val<u32> here = cast<u32>(i), old = hit, older = last_drawable;
      const Val<f32> reached = sum;
      hit = min(old, select((w > 0.0f) & (reached >= target), here, 0xffffffffu));
      last_drawable = select(w > 0.0f, here, older);
    }
    const Val<u32> found = threadgroup_min(hit), fallback = threadgroup_max(last_drawable);
    if_(thread_id() == 0) { out[row] = select(found == 0xffffffffu, fallback, found); }
  }
};

/// out[i] = logits[i] / temperature
template <class T>
struct LogitsTemperature {
  In<T> logits;
  Out<T> out;
  Scalar<f32> temperature;

  void operator()() const {
    const auto i = grid_thread_id();
    out[i] = cast<T>(cast<f32>(logits[i]) / temperature);
  }
};

/// logits[id] = logits[id] > 0 ? logits[id] / penalty : logits[id] * penalty, once for each different id of tokens
/// (Keskar et al. 2019). One thread a token; only the first occurrence writes. Ids beyond the logits are skipped.
template <class T>
struct LogitsRepetitionPenalty {
  InOut<T> logits;
  In<u32> tokens;
  Scalar<f32> penalty;

  Grid grid() const { return Grid::for_items(tokens.size()); }

  void operator()() const {
    const auto i = grid_thread_id();
    const auto id = tokens[i];
    Var<bool> repeated{false};
    for (auto j : range(i).until(repeated)) repeated = tokens[j] == id;
    const auto at = cast<Index>(id);
    const Val<bool> first = repeated == false;
    if_(first & (at < logits.length())) {
      const Val old = logits[at];
      const auto x = cast<f32>(old);
      logits[at] = cast<T>(select(x > 0.0f, x / penalty, x * penalty));
    }
  }
};

/// out[i] = logits[i] >= threshold ? logits[i] : -inf        the threshold is the k-th largest logit
template <class T>
struct LogitsTopkMask {
  In<T> logits;
  Out<T> out;
  Scalar<f32> threshold;

  void operator()() const {
    const auto i = grid_thread_id();
    const auto x = logits[i];
    out[i] = select(cast<f32>(x) >= threshold, x, cast<T>(constant<f32>(masked_logit)));
  }
};

/// Keeps the k largest logits of each row, and those equal to the k-th. logits, out: [rows, n], k at least 1.
/// The k-th is found bit by bit: 32 counts of the logits that are at least a candidate. NaN are filtered.
template <class T>
struct LogitsTopK {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> logits;
  Out<T> out;
  Scalar<u32> n, k;

  Grid grid() const { return row_groups(out.size(), n.value()); }

  void operator()() const {
    const Val<Index> start = threadgroup_id() * n;
    // Integers in the order of the numbers; zeros of both signs are one, a NaN is below all.
    const auto key = [&](const Val<Index>& i) {
      const Val<f32> x = cast<f32>(logits[start + i]) + 0.0f;
      const Val<u32> bits = bitcast<u32>(x);
      const Val<u32> ordered = select((bits & 0x80000000u) != 0u, ~bits, bits | 0x80000000u);
      return select(is_nan(x), constant<u32>(0u), ordered);
    };
    Var<u32> found{0u};
    for (auto step : range(32)) {
      const Val<u32> so_far = found, candidate = so_far | (constant<u32>(0x80000000u) >> cast<u32>(step));
      Var<u32> count{0u};
      for (auto i : range(thread_id(), n, threads()))
        count += select(key(i) >= candidate, constant<u32>(1u), constant<u32>(0u));
      const Val<u32> own = count;
      found = select(threadgroup_sum(own) >= k, candidate, so_far);
    }
    const Val<u32> least = max(Val<u32>(found), 1u);
    for (auto i : range(thread_id(), n, threads()))
      out[start + i] = select(key(i) >= least, logits[start + i], cast<T>(constant<f32>(masked_logit)));
  }
};

/// Keeps the most probable tokens of each row whose probabilities reach top_p together (Holtzman et al. 2020).
/// logits, out: [rows, n]. The cut on probability / largest is found by 24 bisections: probabilities that near (2^-24
/// of the largest) are kept or filtered together. The largest is always kept.
template <class T>
struct LogitsTopPMask {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> logits;
  Out<T> out;
  Scalar<u32> n;
  Scalar<f32> top_p;

  Grid grid() const { return row_groups(out.size(), n.value()); }

  void operator()() const {
    const Val<Index> start = threadgroup_id() * n;
    const Val<f32> top = largest_logit(logits, start, n);
    const auto weight = [&](const Val<Index>& i) { return Val<f32>(exp(cast<f32>(logits[start + i]) - top)); };
    // The mass of the tokens whose weight reaches the cut; a NaN reaches none.
    const auto mass = [&](const Val<f32>& cut) {
      Var<f32> sum{0.0f};
      for (auto i : range(thread_id(), n, threads())) {
        const Val<f32> w = weight(i);
        sum += select(w >= cut, w, 0.0f);
      }
      return Val<f32>(threadgroup_sum(sum));
    };
    const Val<f32> wanted = top_p * mass(constant<f32>(0.0f));
    Var<f32> low{0.0f}, high{1.0f};
    for (auto step : range(24)) {
      (void)step;
      const Val<f32> below = low, above = high;
      const Val<f32> middle = (below + above) * 0.5f;
      const Val<bool> enough = mass(middle) >= wanted;
      low = select(enough, middle, below);
      high = select(enough, above, middle);
    }
    const Val<f32> cut = low;
    for (auto i : range(thread_id(), n, threads())) {
      const auto x = logits[start + i];
      out[start + i] = select(exp(cast<f32>(x) - top) >= cut, x, cast<T>(constant<f32>(masked_logit)));
    }
  }
};

/// Keeps the tokens of each row whose probability is at least min_p times the largest.
/// logits, out: [rows, n]
template <class T>
struct LogitsMinPMask {
  static constexpr Mode mode = Mode::Threadgroup;

  In<T> logits;
  Out<T> out;
  Scalar<u32> n;
  Scalar<f32> min_p;

  Grid grid() const { return row_groups(out.size(), n.value()); }

  void operator()() const {
    const Val<Index> start = threadgroup_id() * n;
    const Val<f32> top = largest_logit(logits, start, n);
    for (auto i : range(thread_id(), n, threads())) {
      const auto x = logits[start + i];
      out[start + i] = select(exp(cast<f32>(x) - top) >= min_p, x, cast<T>(constant<f32>(masked_logit)));
    }
  }
};

}  // namespace iron::kernels
