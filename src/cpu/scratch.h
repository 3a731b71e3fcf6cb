// A worker's scratch block: host services in front, then what the kernel keeps there.
#pragma once

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>

#include "cpu/arith.h"
#include "cpu/lower.h"

namespace iron::cpu {

class Scratch {
 public:
  Scratch() { reserve(scratch_header); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { std::free(data_); }

  /// Makes room; contents other than the header are undefined afterwards.
  void reserve(u64 bytes) {
    bytes = (bytes + 4095) / 4096 * 4096;
    if (bytes <= bytes_) return;
    void* grown = std::aligned_alloc(4096, bytes);
    if (!grown) throw std::bad_alloc();
    std::free(data_);
    data_ = grown, bytes_ = bytes;
    std::memset(data_, 0, scratch_header);
    services() = {[](f64 a, f64 b) { return std::fmod(a, b); }, [](f64 a, f64 b, f64 c) { return std::fma(a, b, c); },
                  [](void*, u32, u64, const u64*) {}, nullptr};
  }
  HostServices& services() { return *static_cast<HostServices*>(data_); }
  void* data() { return data_; }

 private:
  void* data_ = nullptr;
  u64 bytes_ = 0;
};

}  // namespace iron::cpu
