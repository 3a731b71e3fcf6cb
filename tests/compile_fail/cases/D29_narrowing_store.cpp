// A store does not narrow by itself.
// expect: iron D29: the stored value has another element type: write cast<T>(value)
#include "iron/dsl.h"

namespace d29 {
using namespace iron;
struct Kernel {
  In<f32> x;
  Out<f16> y;
  void operator()() const {
    const auto i = grid_thread_id();
    const auto v = x[i];
#ifdef FIXED
    y[i] = cast<f16>(v);
#else
    y[i] = v;
#endif
  }
};
inline auto test() { return record(unbound<Kernel>(), "d29"); }
}  // namespace d29
