// A name that nothing declares.
// expect: weights
#include "iron/dsl.h"

namespace d18_name {
using namespace iron;
struct Kernel {
  In<f32> x, weight;
  Out<f32> y;
  void operator()() const {
    const auto i = grid_thread_id();
#ifdef FIXED
    y[i] = x[i] * weight[i];
#else
    y[i] = x[i] * weights[i];
#endif
  }
};
inline auto test() { return record(unbound<Kernel>(), "d18_name"); }
}  // namespace d18_name
