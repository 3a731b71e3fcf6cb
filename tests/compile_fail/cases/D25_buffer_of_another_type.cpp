// A vector of doubles is no buffer of floats.
// expect: iron D25: the buffer holds another element type
#include <vector>

#include "iron/dsl.h"

namespace d25 {
using namespace iron;
struct Kernel {
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const auto i = grid_thread_id();
    y[i] = x[i];
  }
};
#ifdef FIXED
inline auto test(std::vector<f32>& x, std::vector<f32>& y) { return arguments(Kernel{x, y}); }
#else
inline auto test(std::vector<f64>& x, std::vector<f32>& y) { return arguments(Kernel{x, y}); }
#endif
}  // namespace d25
