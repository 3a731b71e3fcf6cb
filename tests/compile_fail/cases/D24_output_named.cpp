// Naming an element reads it.
// expect: iron D24: an output is not read: declare it InOut<T>
#include "iron/dsl.h"

namespace d24_named {
using namespace iron;
struct Kernel {
#ifdef FIXED
  InOut<f32> y;
#else
  Out<f32> y;
#endif
  void operator()() const {
    const auto i = grid_thread_id();
    Val old = y[i];
    y[i] = old;
  }
};
inline auto test() { return record(unbound<Kernel>(), "d24_named"); }
}  // namespace d24_named
