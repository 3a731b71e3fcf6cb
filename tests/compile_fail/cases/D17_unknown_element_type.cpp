// There is no element type to fall back to.
// expect: iron D17: this is no element type of a buffer
#include "iron/dsl.h"

namespace d17 {
using namespace iron;
#ifdef FIXED
using Element = f64;
#else
using Element = long double;
#endif
struct Kernel {
  In<Element> x;
  Out<Element> y;
  void operator()() const {
    const auto i = grid_thread_id();
    y[i] = x[i];
  }
};
inline auto test() { return record(unbound<Kernel>(), "d17"); }
}  // namespace d17
