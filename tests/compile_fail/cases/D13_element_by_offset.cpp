// A place in swizzled memory is a row and a column, never an offset: what is added comes before the swizzle.
// expect: does not provide a call operator|no matching function for call|no match for call
#include "iron/hopper.h"

namespace d13 {
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
        const auto s = from.wait();
#ifdef FIXED
        y[thread_id() - 128u] = cast<f32>(Val<f16>(ring[s](1u, 8u)));
#else
        y[thread_id() - 128u] = cast<f32>(Val<f16>(ring[s](72u)));
#endif
        from.release();
      }
    }
  }
};
inline auto test() { return record(unbound<Kernel>(), "d13"); }
}  // namespace d13
