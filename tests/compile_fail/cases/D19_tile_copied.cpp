// A tile is one object with one state: it is not copied, so no state is seen at another place.
// expect: deleted
#include "iron/dsl.h"

namespace d19 {
using namespace iron;
struct Kernel {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> a;
  Out<f32> c;
  void operator()() const {
    Tile<f32, f32> sum(8, 8);
#ifdef FIXED
    auto& same = sum;
#else
    auto same = sum;
#endif
    same.zero();
    sum.mma(Block(a, 0, 8), Block(a, 0, 8), 8);
    sum.store(Block(c, 0, 8), 8, 8);
  }
};
inline auto test() { return record(unbound<Kernel>(), "d19"); }
}  // namespace d19
