// Geometry of launches in units that do not mix: threadgroups are not threads, bytes are not elements.
#pragma once

#include "iron/types.h"

namespace iron {

struct Threadgroups {
  u32 x = 1, y = 1, z = 1;
};
struct Threads {
  u32 x = 1, y = 1, z = 1;
};
struct Bytes {
  u64 value = 0;
};
struct Elements {
  u64 value = 0;
};

/// A grid in threadgroups of some threads each; `items` bounds elementwise kernels, which guard themselves against it.
struct Grid {
  Threadgroups groups;
  Threads threads;
  u64 items = 0;
  Grid() = default;
  Grid(Threadgroups g, Threads t) : groups(g), threads(t) {}
  /// One thread an item.
  static Grid for_items(u64 n, Threads t = {256, 1, 1}) {
    Grid g(Threadgroups{static_cast<u32>((n + t.x - 1) / t.x)}, t);
    g.items = n;
    return g;
  }
};

}  // namespace iron
