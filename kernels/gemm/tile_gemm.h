// The body that every dense GEMM shares: blocks of A and B staged in threadgroup memory, multiplied into a tile.
#pragma once

#include <memory>
#include <vector>

#include "iron/dsl.h"

namespace iron::kernels {

/// Blocking of a GEMM: a threadgroup computes bm x bn of C, bk terms a step, with that many simdgroups.
struct GemmSpec {
  u32 bm = 64, bn = 64, bk = 16, simdgroups = 4;
  u32 pad =
      8;  ///< elements between staged rows, against bank conflicts; rows of 16-bit elements stay aligned to 16 bytes
  /// Staging by accesses of 16 bytes into two stages, where the rows of A and B allow them: the next step is loaded
  /// while this one is multiplied. Threads divide the accesses of a step.
  bool wide = false;

  constexpr u32 threads() const { return 32 * simdgroups; }
  Grid grid(u32 m, u32 n, u32 depth = 1) const {
    return {Threadgroups{(n + bn - 1) / bn, (m + bm - 1) / bm, depth}, Threads{threads()}};
  }
};

/// Staging memory and accumulator of one threadgroup. f32 accumulation whatever T is. B is staged as [k][n], or as
/// [n][k] where its rows run along k (`weight_major`), so that neighbouring threads read neighbouring elements.
template <class T>
struct GemmTile {
  explicit GemmTile(const GemmSpec& s, bool b_weight_major = false)
      : spec(s),
        weight_major(b_weight_major),
        a_stride(s.bk + s.pad),
        turns_b(s.wide && weight_major && sizeof(T) == 4),
        b_rows_along_k(weight_major && !turns_b),
        b_stride(turns_b ? s.bn + 4 : (weight_major ? s.bk : s.bn) + s.pad),
        a(s.bm * a_stride),
        b((b_rows_along_k ? s.bn : s.bk) * b_stride),
        sum(s.bm, s.bn) {
    if (!spec.wide) return;
    other.push_back(std::make_unique<Shared<T>>(s.bm * a_stride));
    other.push_back(std::make_unique<Shared<T>>((b_rows_along_k ? s.bn : s.bk) * b_stride));
  }

  /// sum += A[.., k0 .. k0 + bk) * B[k0 .. k0 + bk, ..), of which only terms below `end` count: load_a(row, k, inside)
  /// and load_b(k, col, inside) give elements of this threadgroup's block, zero where they are not `inside` or lie
  /// outside their matrix.
  template <class LoadA, class LoadB>
  void step(Use<Index> k0, Use<Index> end, LoadA load_a, LoadB load_b) {
    const Val<Index> first(k0), last(end);
    for (auto i : range(thread_id(), spec.bm * spec.bk, threads())) {
      const auto r = i / spec.bk, k = i % spec.bk;
      const auto at = first + k;
      const Val<T> v = load_a(r, at, at < last);
      a[r * a_stride + k] = v;
    }
    for (auto i : range(thread_id(), spec.bk * spec.bn, threads())) {
      const u32 inner = weight_major ? spec.bk : spec.bn;
      const auto outer_index = i / inner, inner_index = i % inner;
      const auto k = weight_major ? inner_index : outer_index, c = weight_major ? outer_index : inner_index;
      const auto at = first + k;
      const Val<T> v = load_b(at, c, at < last);
      const auto to = turns_b ? inner_index * b_stride + outer_index : outer_index * b_stride + inner_index;
      b[to] = v;
    }
    barrier();
    sum.mma(Block(a, 0, a_stride), Block(b, 0, b_stride), spec.bk, {.b = b_rows_along_k});
    barrier();
  }

  /// The terms from .. end. The bounds are the same for the whole threadgroup.
  template <class LoadA, class LoadB>
  void multiply(Use<Index> from, Use<Index> end, LoadA load_a, LoadB load_b) {
    const Val<Index> first(from), last(end);
    const auto scalar = [&] {
      for (auto k0 : range(first, last, spec.bk)) step(k0, last, load_a, load_b);
    };
    if constexpr (requires { load_a.whole(), load_b.whole(); }) {
      if (spec.wide) {
        const auto a_whole = load_a.whole(), b_whole = load_b.whole();
        const auto whole = a_whole && b_whole && first % width == 0 && last % width == 0;
        IRON_IF(whole) { multiply_wide(first, last, load_a, load_b); }
        else {
          scalar();
        }
        return;
      }
    }
    scalar();
  }

  /// The same by accesses of 16 bytes: each step's are loaded before the step ahead of it is multiplied.
  template <class LoadA, class LoadB>
  void multiply_wide(const Val<Index>& first, const Val<Index>& last, const LoadA& load_a, const LoadB& load_b) {
    const auto a_at = places(spec.bm, spec.bk),
               b_at = weight_major ? places(spec.bn, spec.bk) : places(spec.bk, spec.bn);
    // Accesses that lie beyond the end whole count as zero; the bounds say so to whoever checks the launch.
    const auto last_piece = last - width, last_term = last - 1;
    const auto loaded = [&](const Val<Index>& k0) {
      std::vector<Vec<T, width>> all;
      for (const auto& p : a_at) {
        const auto at = k0 + p.inner;
        all.push_back(load_a.vec(p.outer, min(at, last_piece), at < last));
      }
      for (const auto& p : b_at) {
        const auto at = k0 + (weight_major ? p.inner : p.outer);
        all.push_back(
            load_b.vec(min(at, weight_major ? last_piece : last_term), weight_major ? p.outer : p.inner, at < last));
      }
      return all;
    };
    const auto keep = [&](const std::vector<Vec<T, width>>& all, const Shared<T>& to_a, const Shared<T>& to_b) {
      for (std::size_t i = 0; i < a_at.size(); ++i) store_vec(to_a, a_at[i].outer * a_stride + a_at[i].inner, all[i]);
      for (std::size_t i = 0; i < b_at.size(); ++i) {
        const auto& v = all[a_at.size() + i];
        if (!turns_b) {
          store_vec(to_b, b_at[i].outer * b_stride + b_at[i].inner, v);
          continue;
        }
        for (u32 j = 0; j < width; ++j) to_b[(b_at[i].inner + j) * b_stride + b_at[i].outer] = v[j];
      }
    };
    const auto multiplied = [&](const Shared<T>& from_a, const Shared<T>& from_b) {
      sum.mma(Block(from_a, 0, a_stride), Block(from_b, 0, b_stride), spec.bk, {.b = b_rows_along_k});
    };
    keep(loaded(first), a, b);
    barrier();
    for (auto k0 : range(first, last, 2 * spec.bk)) {
      const auto second = k0 + spec.bk, third = k0 + 2 * spec.bk;
      const auto later = loaded(second);
      multiplied(a, b);
      keep(later, *other[0], *other[1]);
      barrier();
      const auto latest = loaded(third);
      multiplied(*other[0], *other[1]);  // zeros where the steps are odd
      keep(latest, a, b);
      barrier();
    }
  }

  static constexpr u32 width = 16 / sizeof(T);
  struct Place {
    Val<Index> outer, inner;
  };
  /// Where the accesses of this thread to a staged block lie.
  std::vector<Place> places(u32 outer, u32 inner) const {
    const u32 across = inner / width, count = outer * across / spec.threads();
    if (inner % width || outer * across % spec.threads())
      throw Error("LIB03", "a block that is staged by accesses of 16 bytes is not shared out evenly",
                  "give a blocking whose accesses the threads divide, or leave `wide` false");
    std::vector<Place> all;
    for (u32 i = 0; i < count; ++i) {
      const auto at = thread_id() + i * spec.threads();
      const auto row = at / across, column = at % across * width;
      all.push_back({row, column});
    }
    return all;
  }

  GemmSpec spec;
  bool weight_major;
  u32 a_stride;
  bool turns_b;  ///< B is staged as [k][n] although its rows run along k: without a matrix unit rows are read whole
  bool b_rows_along_k;  ///< B is staged as [n][k]
  u32 b_stride;
  Shared<T> a, b;
  Tile<T, f32> sum;
  std::vector<std::unique_ptr<Shared<T>>> other;  ///< the second stage of A and of B
};

/// Elements of the blocks of a GEMM, for GemmTile::multiply: zero beyond the matrix. block_rows: rows from `first` on
/// of x [rows, depth], as A; weight_rows: the same as a weight-major B; block_columns: columns from `first` on of x
/// [depth, columns], as B.
///
/// vec(...) gives 16 bytes of neighbours along the memory's rows, where whole() says that they start at multiples of 16
/// bytes and lie inside or outside together. Rows and columns beyond the matrix are its last ones again there: what
/// they add to is not stored.
template <class T>
struct BlockRows {
  static constexpr u32 width = 16 / sizeof(T);
  const In<T>& x;
  Val<Index> first, rows, depth;

  Val<T> operator()(const Val<Index>& r, const Val<Index>& at, const Val<bool>& inside) const {
    return x.load_or(inside && first + r < rows, (first + r) * depth + at, T{});
  }
  Val<bool> whole() const { return depth % width == 0; }
  Vec<T, width> vec(const Val<Index>& r, const Val<Index>& at, const Val<bool>& inside) const {
    const auto row = min(first + r, rows - 1);
    return load_vec_or<width>(x, inside, row * depth + at, T{});
  }
};
template <class T>
struct BlockColumns {
  static constexpr u32 width = 16 / sizeof(T);
  const In<T>& x;
  Val<Index> first, columns;

  Val<T> operator()(const Val<Index>& at, const Val<Index>& c, const Val<bool>& inside) const {
    return x.load_or(inside && first + c < columns, at * columns + first + c, T{});
  }
  Val<bool> whole() const { return columns % width == 0; }
  Vec<T, width> vec(const Val<Index>& at, const Val<Index>& c, const Val<bool>& inside) const {
    const auto column = min(first + c, columns - width);
    return load_vec_or<width>(x, inside, at * columns + column, T{});
  }
};
template <class T>
struct WeightRows {
  BlockRows<T> load;

  Val<T> operator()(const Val<Index>& at, const Val<Index>& c, const Val<bool>& inside) const {
    return load(c, at, inside);
  }
  Val<bool> whole() const { return load.whole(); }
  auto vec(const Val<Index>& at, const Val<Index>& c, const Val<bool>& inside) const { return load.vec(c, at, inside); }
};

template <class T>
BlockRows<T> block_rows(const In<T>& x, const Val<Index>& first, Use<Index> rows, Use<Index> depth) {
  return {x, first, Val<Index>(rows), Val<Index>(depth)};
}
template <class T>
BlockColumns<T> block_columns(const In<T>& x, const Val<Index>& first, Use<Index> columns) {
  return {x, first, Val<Index>(columns)};
}
template <class T>
WeightRows<T> weight_rows(const In<T>& x, const Val<Index>& first, Use<Index> rows, Use<Index> depth) {
  return {{x, first, Val<Index>(rows), Val<Index>(depth)}};
}

/// Rows (or columns) of a block of `size` from `first` on that lie inside `extent`.
inline Val<Index> valid(Use<Index> extent, Use<Index> first, u32 size) {
  const Val<Index> all(extent), start(first);
  return min(all - start, size);
}

}  // namespace iron::kernels
