// A buffer that is not given is not taken to be empty.
// expect: default constructor|no matching|could not convert|default member initializer|no default
#include <vector>

#include "iron/dsl.h"

namespace d18_missing {
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
inline auto test(std::vector<f32>& x, std::vector<f32>& y) { return arguments(Scale{x, y}); }
#endif
}  // namespace d18_missing
