// A host while would run while recording, once.
// expect: iron D28|could not convert|no viable conversion|not contextually convertible
#include "iron/dsl.h"

namespace d28_loop {
using namespace iron;
struct Kernel {
  In<u32> n;
  Out<u32> y;
  void operator()() const {
    const auto t = grid_thread_id();
    const auto count = n[t];
#ifdef FIXED
    Var<u32> sum{0u};
    for (auto i : range(bounded(count, 0u, 64u))) sum += cast<u32>(i);
    y[t] = sum;
#else
    while (count > 0u) y[t] = count;
#endif
  }
};
inline auto test() { return record(unbound<Kernel>(), "d28_loop"); }
}  // namespace d28_loop
