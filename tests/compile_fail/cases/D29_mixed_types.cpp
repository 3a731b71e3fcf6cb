// Two element types meet in no operation.
// expect: iron: the operands have different element types: convert one with cast<T>(value)
#include "iron/dsl.h"

namespace d29_mixed {
using namespace iron;
struct Kernel {
  In<f32> x;
  In<i32> n;
  Out<f32> y;
  void operator()() const {
    const auto i = grid_thread_id();
    const auto v = x[i];
    const auto m = n[i];
#ifdef FIXED
    y[i] = v * cast<f32>(m);
#else
    y[i] = v * m;
#endif
  }
};
inline auto test() { return record(unbound<Kernel>(), "d29_mixed"); }
}  // namespace d29_mixed
