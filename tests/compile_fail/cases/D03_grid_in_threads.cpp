// A grid counts threadgroups; numbers of threads do not become them.
// expect: Threadgroups
#include "iron/dsl.h"

namespace d03 {
using namespace iron;
#ifdef FIXED
inline Grid grid(u32 n) { return Grid{Threadgroups{(n + 255) / 256}, Threads{256}}; }
#else
inline Grid grid(u32 n) { return Grid{Threads{n}, Threads{256}}; }
#endif
}  // namespace d03
