// A kernel's fields are its arguments: one too many has no place to go.
// expect: excess elements|too many initializers
#include <vector>

#include "iron/dsl.h"

namespace d18 {
using namespace iron;
struct Scale {
  In<f32> x;
  Out<f32> y;
  Scalar<f32> by;
  void operator()() const {
    const auto i = grid_thread_id();
    y[i] = x[i] * by;
  }
};
#ifdef FIXED
inline auto test(std::vector<f32>& x, std::vector<f32>& y) { return arguments(Scale{x, y, 2.0f}); }
#else
inline auto test(std::vector<f32>& x, std::vector<f32>& y) { return arguments(Scale{x, y, 2.0f, 3.0f}); }
#endif
}  // namespace d18
