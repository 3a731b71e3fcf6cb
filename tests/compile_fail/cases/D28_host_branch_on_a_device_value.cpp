// The host cannot ask what a device value will be.
// expect: iron D28: a device value has no truth on the host: use if_(...), select(...) or range(...)
#include "iron/dsl.h"

namespace d28 {
using namespace iron;
struct Kernel {
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const auto i = grid_thread_id();
    const auto v = x[i];
#ifdef FIXED
    if_(v > 0.0f) { y[i] = v; }
#else
    if (v) y[i] = v;
#endif
  }
};
inline auto test() { return record(unbound<Kernel>(), "d28"); }
}  // namespace d28
