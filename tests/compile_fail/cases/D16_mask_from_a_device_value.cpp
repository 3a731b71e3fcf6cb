// The mask of a shuffle is part of the instruction.
// expect: iron D16: the mask is part of the instruction
#include "iron/dsl.h"

namespace d16 {
using namespace iron;
struct Kernel {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const auto t = thread_id();
    const auto v = x[t];
#ifdef FIXED
    y[t] = simd_shuffle_xor(v, 16);
#else
    y[t] = simd_shuffle_xor(v, t);
#endif
  }
};
inline auto test() { return record(unbound<Kernel>(), "d16"); }
}  // namespace d16
