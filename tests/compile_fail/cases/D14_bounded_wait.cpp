// A wait has no number of tries: one that gave up would let the kernel go on without its data.
// expect: no matching member function for call to 'wait'|could not convert|no known conversion|cannot convert
#include "iron/hopper.h"

namespace d14 {
using namespace iron;
struct Kernel {
  static constexpr Mode mode = Mode::Threadgroup;
  TensorMap<f16> x;
  Out<f32> y;
  void operator()() const {
    Shared<f16> ring{1, {8, 64}, Swizzle::b128};
    const Pipeline pipe{1, "load", "use"};
    for (auto& role : roles({{"load", 1, {}, Issue::one}, {"use", 1}})) {
      if (role.is("load")) {
        auto to = pipe.producer();
        const auto s = to.acquire();
        x.load(s, ring[s], {0u, 0u});
      } else {
        auto from = pipe.consumer();
#ifdef FIXED
        const auto s = from.wait();
#else
        const auto s = from.wait(1000);
#endif
        y[thread_id() - 128u] = cast<f32>(Val<f16>(ring[s](0u, 0u)));
        from.release();
      }
    }
  }
};
inline auto test() { return record(unbound<Kernel>(), "d14"); }
}  // namespace d14
