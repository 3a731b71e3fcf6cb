// A variable has a value from its first line on: there is nothing uninitialised to read.
// expect: no matching|no default constructor
#include "iron/dsl.h"

namespace d32 {
using namespace iron;
struct Kernel {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const auto t = thread_id();
#ifdef FIXED
    Var<f32> v{0.0f};
#else
    Var<f32> v;
#endif
    if_(t < 4) { v = x[t]; }
    y[t] = v;
  }
};
inline auto test() { return record(unbound<Kernel>(), "d32"); }
}  // namespace d32
