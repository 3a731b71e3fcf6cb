// Rows that a threadgroup holds in registers: each element is read once, in accesses of up to 16 bytes.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "iron/dsl.h"
#include "iron/error.h"
#include "rows.h"

namespace iron::kernels {

/// True if rows of n elements fit a threadgroup whose threads hold `per_thread` each: whole simdgroups, at most 1,024
/// threads.
constexpr bool fits_registers(u32 n, u32 per_thread) {
  return n % (32 * per_thread) == 0 && n >= 32 * per_thread && n <= 1024 * per_thread;
}
/// One threadgroup a row, `per_thread` elements a thread; none where rows have no elements. Throws iron::Error LIB03
/// for rows that do not fit.
inline Grid register_row_groups(u64 elements, u32 n, u32 per_thread) {
  if (n != 0 && !fits_registers(n, per_thread))
    throw Error("LIB03",
                "rows of " + std::to_string(n) + " elements, where a thread holds " + std::to_string(per_thread),
                "give rows a multiple of " + std::to_string(32 * per_thread) + " elements, at most " +
                    std::to_string(1024 * per_thread) + ", or use the kernel for rows of any length");
  return row_groups(elements, n, std::max(n / per_thread, 32u));
}

/// Elements of one access: 16 bytes of T, or all that the thread has.
template <class T>
constexpr u32 access_width(u32 per_thread) {
  return std::min<u32>(per_thread, 16 / sizeof(T));
}

/// Where access c of the thread begins: neighbouring threads read neighbouring bytes.
inline Val<Index> access_start(const Val<Index>& row, u32 c, u32 width) {
  return row + (threads() * c + thread_id()) * width;
}
template <u32 width, class T>
std::vector<Val<f32>> load_accesses(const In<T>& x, const Val<Index>& row, u32 per_thread) {
  std::vector<Vec<T, width>> parts;
  for (u32 c = 0; c < per_thread / width; ++c) parts.push_back(load_vec<width>(x, access_start(row, c, width)));
  std::vector<Val<f32>> values;
  for (const auto& part : parts)
    for (u32 j = 0; j < width; ++j) values.push_back(cast<f32>(part[j]));
  return values;
}
template <u32 width, class T, class Value>
void store_accesses(const Out<T>& y, const Val<Index>& row, u32 per_thread, Value value) {
  for (u32 c = 0; c < per_thread / width; ++c) {
    std::vector<Val<T>> part;
    for (u32 j = 0; j < width; ++j) part.push_back(cast<T>(Val<f32>(value(c * width + j))));
    const auto make = [&]<std::size_t... J>(std::index_sequence<J...>) {
      return Vec<T, width>(std::array<Use<T>, width>{Use<T>(part[J])...});
    };
    store_vec(y, access_start(row, c, width), make(std::make_index_sequence<width>()));
  }
}

/// The thread's elements of the row that starts at `row`, in f32: element c * width + j of the result is
/// x[row + (c * threads + thread) * width + j], width = access_width<T>(per_thread). per_thread is 2, 4 or a multiple
/// of 8.
template <class T>
std::vector<Val<f32>> load_part(const In<T>& x, const Val<Index>& row, u32 per_thread) {
  switch (access_width<T>(per_thread)) {
    case 2:
      return load_accesses<2>(x, row, per_thread);
    case 4:
      return load_accesses<4>(x, row, per_thread);
    default:
      if constexpr (sizeof(T) == 2) return load_accesses<8>(x, row, per_thread);
  }
  return {};
}
/// Sets the thread's elements: value(k), in f32, goes where load_part takes element k from, with one rounding.
template <class T, class Value>
void store_part(const Out<T>& y, const Val<Index>& row, u32 per_thread, Value value) {
  switch (access_width<T>(per_thread)) {
    case 2:
      return store_accesses<2>(y, row, per_thread, value);
    case 4:
      return store_accesses<4>(y, row, per_thread, value);
    default:
      if constexpr (sizeof(T) == 2) store_accesses<8>(y, row, per_thread, value);
  }
}

/// The largest of the values; NaN is skipped.
inline Val<f32> largest(const std::vector<Val<f32>>& values) {
  std::vector<Val<f32>> rest(values);  // by halves: an extremum has no rounding, so the order is free, the chain short
  while (rest.size() > 1) {
    std::vector<Val<f32>> next;
    for (std::size_t i = 0; i + 1 < rest.size(); i += 2) next.push_back(max(rest[i], rest[i + 1]));
    if (rest.size() % 2) next.push_back(rest.back());
    rest.swap(next);
  }
  return rest[0];
}

}  // namespace iron::kernels
