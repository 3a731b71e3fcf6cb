// An input is read: its elements are not assigned.
// expect: iron D24: an element of an input or a computed value cannot be set
#include "iron/dsl.h"

namespace d24 {
using namespace iron;
struct Kernel {
#ifdef FIXED
  InOut<f32> x;
#else
  In<f32> x;
#endif
  void operator()() const { x[grid_thread_id()] = 1.0f; }
};
inline auto test() { return record(unbound<Kernel>(), "d24"); }
}  // namespace d24
