// Attention by simdgroups: the one place where queries meet keys, online, whatever names the keys and stores the
// result.
//
// A simdgroup holds `queries` rows of q, lane l the dimensions l, l + 32, ... A step reads `keys` rows of K once for
// all of its queries. Its queries * keys dot products are summed over the lanes by a transposing ladder, which leaves
// one of them in each lane: so a step has one exponential, not one for each product. Softmax is online (Milakov and
// Gimelshein 2018). Everything is f32 in one fixed order: results are bitwise the same on every device.
#pragma once

#include <limits>
#include <optional>
#include <vector>

#include "iron/dsl.h"

namespace iron::kernels {

/// Work of one simdgroup. queries and keys are powers of two whose product is at most 32.
struct AttentionShape {
  u32 dim = 128;  ///< of a head; idle lanes hold zeros where it is no multiple of 32
  u32 queries = 1;
  u32 keys = 8;

  constexpr u32 per_lane() const { return (dim + 31) / 32; }
  constexpr bool ragged() const { return dim % 32 != 0; }
  constexpr u32 pairs() const { return queries * keys; }
  /// Neighbouring lanes that hold the same dot product.
  constexpr u32 copies() const { return 32 / pairs(); }
};
/// Keys a step that keep the state of a head of that size in registers.
constexpr u32 attention_keys(u32 dim, u32 queries = 1) {
  const u32 keys = dim >= 256 ? 4 : 8;
  return keys * queries > 32 ? 32 / queries : keys;
}

/// What scores of keys that are not attended become.
inline constexpr f32 no_score = -std::numeric_limits<f32>::infinity();

/// Sums over the 32 lanes of `values`, a power of two of them: lane l holds the sum of value l * values.size() / 32.
/// Each sum is added as simd_sum adds it; n of them take n - 1 + log2(32 / n) shuffles instead of 5 n.
inline Val<f32> transposed_sums(std::vector<Val<f32>> values) {
  const auto lane = lane_id();
  u32 mask = 16;
  for (; values.size() > 1; mask /= 2) {
    const auto half = values.size() / 2;
    const Val<bool> upper = (cast<u32>(lane) & mask) != 0u;
    std::vector<Val<f32>> next;
    for (std::size_t i = 0; i < half; ++i) {
      const Val<f32> kept = select(upper, values[i + half], values[i]),
                     given = select(upper, values[i], values[i + half]);
      next.push_back(kept + simd_shuffle_xor(given, mask));
    }
    values.swap(next);
  }
  std::vector<Val<f32>> chain{values[0]};
  for (; mask >= 1; mask /= 2) chain.push_back(chain.back() + simd_shuffle_xor(chain.back(), mask));
  return chain.back();
}

/// The queries of one simdgroup and what they have gathered so far.
class SimdAttention {
 public:
  /// load_q(u32 query, d): the query's element, scaled, in f32.
  template <class LoadQ>
  SimdAttention(const AttentionShape& shape, LoadQ load_q)
      : shape_(shape), lane_(lane_id()), out_(shape.queries * shape.per_lane(), 0.0f) {
    for (u32 q = 0; q < shape.queries; ++q)
      for (u32 i = 0; i < shape.per_lane(); ++i)
        q_.push_back(element([&](const Val<Index>& d) { return load_q(q, d); }, i));
  }

  /// The keys of a step: key_of(u32 slot) is a key whose rows load_k(key, d) and load_v(key, d) can be read; score(dot,
  /// query, slot) is called once, for the lane's own pair, and gives the score, no_score where the pair is not
  /// attended.
  template <class KeyOf, class LoadK, class LoadV, class Score>
  void step(KeyOf key_of, LoadK load_k, LoadV load_v, Score score) {
    const u32 n = shape_.per_lane();
    std::vector<Val<Index>> keys;
    std::vector<Val<f32>> rows, dots;
    for (u32 j = 0; j < shape_.keys; ++j) {
      keys.emplace_back(key_of(j));
      for (u32 i = 0; i < n; ++i)
        rows.push_back(element([&](const Val<Index>& d) { return row_element(load_k, keys[j], d, i); }, i));
    }
    for (u32 q = 0; q < shape_.queries; ++q)
      for (u32 j = 0; j < shape_.keys; ++j) {
        std::vector<Val<f32>> dot{q_[q * n] * rows[j * n]};
        for (u32 i = 1; i < n; ++i) dot.push_back(fma(q_[q * n + i], rows[j * n + i], dot.back()));
        dots.push_back(dot.back());
      }
    const auto pair = lane_ / shape_.copies();
    const Val<f32> own = score(transposed_sums(std::move(dots)), pair / shape_.keys, pair % shape_.keys);
    const Val<f32> old = top_, now = max(old, over_keys(own, [](auto a, auto b) { return max(a, b); }));
    const Val<f32> keep = exp(old - now), weight = exp(own - now), total = total_;
    top_ = now;
    total_ = fma(total, keep, weight);

    std::vector<Val<f32>> values;
    for (u32 j = 0; j < shape_.keys; ++j)
      for (u32 i = 0; i < n; ++i)
        values.push_back(element([&](const Val<Index>& d) { return row_element(load_v, keys[j], d, i); }, i));
    for (u32 q = 0; q < shape_.queries; ++q) {
      const Val<f32> kept = simd_broadcast(keep, first_lane(q, 0));
      std::vector<Val<f32>> weights;
      for (u32 j = 0; j < shape_.keys; ++j) weights.push_back(simd_broadcast(weight, first_lane(q, j)));
      for (u32 i = 0; i < n; ++i) {
        const Val<f32> before = out_[q * n + i];
        std::vector<Val<f32>> sum{before * kept};
        for (u32 j = 0; j < shape_.keys; ++j) sum.push_back(fma(weights[j], values[j * n + i], sum.back()));
        out_[q * n + i] = sum.back();
      }
    }
  }

  /// The lane's own query: largest score and sum of exp(score - largest) over its keys.
  struct Softmax {
    Val<f32> top, total;
  };
  Softmax softmax() const {
    const Val<f32> top = top_, total = total_;
    return {top, over_keys(total, [](auto a, auto b) { return a + b; })};
  }
  /// The same of one query, in every lane.
  Softmax softmax(const Softmax& own, u32 query) const {
    return {simd_broadcast(own.top, first_lane(query, 0)), simd_broadcast(own.total, first_lane(query, 0))};
  }
  /// store(query, d, inside, sum over the keys of exp(score - largest) * v[d]): the lane's elements of every query.
  template <class Store>
  void each(Store store) const {
    for (u32 q = 0; q < shape_.queries; ++q)
      for (u32 i = 0; i < shape_.per_lane(); ++i) {
        const Val<f32> value = out_[q * shape_.per_lane() + i];
        const auto d = lane_ + 32 * i;
        if (shape_.ragged() && i + 1 == shape_.per_lane()) {
          if_(d < shape_.dim) { store(q, d, value); }
        } else {
          store(q, d, value);
        }
      }
  }

 private:
  // A loader may ask for i: d is lane + 32 i, so that 32 * i and what follows from it are the same for all lanes.
  template <class Load>
  static Val<f32> row_element(Load& load, const Val<Index>& key, const Val<Index>& d, u32 i) {
    if constexpr (requires { load(key, d, i); })
      return load(key, d, i);
    else
      return load(key, d);
  }
  // The lane's i-th dimension; zero in a lane that has none.
  template <class Load>
  Val<f32> element(Load load, u32 i) const {
    const auto d = lane_ + 32 * i;
    if (!shape_.ragged() || i + 1 < shape_.per_lane()) return load(d);
    return select(d < shape_.dim, load(min(d, shape_.dim - 1)), constant<f32>(0.0f));
  }
  template <class F>
  Val<f32> over_keys(const Val<f32>& own, F f) const {
    std::vector<Val<f32>> chain{own};
    for (u32 mask = shape_.copies(); mask < 32 / shape_.queries; mask *= 2)
      chain.push_back(f(chain.back(), simd_shuffle_xor(chain.back(), mask)));
    return chain.back();
  }
  u32 first_lane(u32 query, u32 key) const { return (query * shape_.keys + key) * shape_.copies(); }

  AttentionShape shape_;
  Val<Index> lane_;
  std::vector<Val<f32>> q_;
  Vars<f32> out_;
  // The lowest finite number, so that no difference of equal infinities arises where no key is attended.
  Var<f32> top_{std::numeric_limits<f32>::lowest()};
  Var<f32> total_{0.0f};
};

/// sum / total, and 0 for a query that attends no key.
inline Val<f32> attention_quotient(const Val<f32>& sum, const Val<f32>& total) {
  return select(total == 0.0f, constant<f32>(0.0f), sum / total);
}

/// One output element from `parts` partial results of its query, in ascending order: top(p), total(p) and sum(p) as
/// SimdAttention left them. `sink` is the score of a key whose value is zero.
template <class Top, class Total, class Sum>
Val<f32> combine_attention(Use<Index> parts, const std::optional<Val<f32>>& sink, Top top, Total total, Sum sum) {
  const Val<Index> count(parts);
  Var<f32> largest{sink ? Val<f32>(*sink) : constant<f32>(std::numeric_limits<f32>::lowest())};
  for (auto p : range(count)) {
    const Val<f32> old = largest, other = top(p);
    largest = max(old, other);
  }
  const Val<f32> all = largest;
  Var<f32> weight{sink ? exp(*sink - all) : constant<f32>(0.0f)}, value{0.0f};
  for (auto p : range(count)) {
    const Val<f32> other = top(p), part = total(p), partial = sum(p);
    const Val<f32> scale = exp(other - all), w = weight, v = value;
    weight = fma(part, scale, w);
    value = fma(partial, scale, v);
  }
  const Val<f32> v = value, w = weight;
  return attention_quotient(v, w);
}

/// A threadgroup of `simdgroups` simdgroups attends shape.queries queries: simdgroup s takes the steps s, s +
/// simdgroups,
/// ... of `count` keys, then all results are joined in the order of the simdgroups. key_at(i) is the i-th of the keys,
/// score(dot, query, key) as in SimdAttention, sink(u32 query) an optional score, store(u32 query, d, value) the
/// result.
template <class LoadQ, class KeyAt, class LoadK, class LoadV, class Score, class Sink, class Store>
void threadgroup_attention(const AttentionShape& shape, u32 simdgroups, Use<Index> count, LoadQ load_q, KeyAt key_at,
                           LoadK load_k, LoadV load_v, Score score, Sink sink, Store store) {
  const Val<Index> keys(count);
  const auto part = simdgroup_id();
  SimdAttention own(shape, load_q);
  for (auto first : range(part * shape.keys, keys, simdgroups * shape.keys))
    own.step([&](u32 slot) { return key_at(min(first + slot, keys - 1)); }, load_k, load_v,
             [&](const Val<f32>& dot, const Val<Index>& query, const Val<Index>& slot) {
               const auto i = first + slot;
               return select(i < keys, score(dot, query, key_at(min(i, keys - 1))), constant<f32>(no_score));
             });

  const u32 queries = shape.queries, dim = shape.dim;
  const Shared<f32> tops(simdgroups * queries), totals(simdgroups * queries), sums(simdgroups * queries * dim);
  const auto softmax = own.softmax();
  const auto lane = lane_id();
  const u32 lanes = 32 / queries;
  if_(lane % lanes == 0) {
    const auto at = part * queries + lane / lanes;
    tops[at] = softmax.top;
    totals[at] = softmax.total;
  }
  own.each([&](u32 q, const Val<Index>& d, const Val<f32>& v) { sums[(part * queries + q) * dim + d] = v; });
  barrier();
  for (u32 q = 0; q < queries; ++q)
    for (auto d : range(thread_id(), dim, simdgroups * 32)) {
      const auto at = [&](const Shared<f32>& x) {
        return [&, q](const Val<Index>& p) { return Val<f32>(x[p * queries + q]); };
      };
      store(q, d, combine_attention(simdgroups, sink(q), at(tops), at(totals), [&](const Val<Index>& p) {
              return Val<f32>(sums[(p * queries + q) * dim + d]);
            }));
    }
}

/// The rows of a head that starts at row `first` of x: [rows, dim].
template <class T>
auto attention_rows(const In<T>& x, const Val<Index>& first, u32 dim) {
  return [&x, first, dim](const Val<Index>& key, const Val<Index>& d) { return cast<f32>(x[(first + key) * dim + d]); };
}
// Usual arguments of threadgroup_attention: the keys 0, 1, ..., the dot product as the score, no sink.
inline Val<Index> every_key(const Val<Index>& i) { return i; }
inline Val<f32> plain_score(const Val<f32>& dot, const Val<Index>&, const Val<Index>&) { return dot; }
inline std::optional<Val<f32>> no_sink(u32) { return std::nullopt; }
/// The sink of a head, where the kernel has sinks.
inline std::optional<Val<f32>> sink_of(const Optional<In<f32>>& sinks, const Val<Index>& head) {
  if (!sinks) return std::nullopt;
  return (*sinks)[head];
}

}  // namespace iron::kernels
