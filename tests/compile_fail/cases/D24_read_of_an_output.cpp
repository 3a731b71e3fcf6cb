// An output is written: what it held before is nobody's business.
// expect: iron D24: an output is not read: declare it InOut<T>
#include "iron/dsl.h"

namespace d24_read {
using namespace iron;
struct Kernel {
#ifdef FIXED
  InOut<f32> y;
#else
  Out<f32> y;
#endif
  void operator()() const {
    const auto i = grid_thread_id();
    y[i] = y[i] * 2.0f;
  }
};
inline auto test() { return record(unbound<Kernel>(), "d24_read"); }
}  // namespace d24_read
