#include "registry.h"

namespace iron {

const Registry& standard_library() {
  static const Registry registry = [] {
    Registry r;
    kernels::register_rms_norm(r);
    // gemm
    kernels::register_steel_gemm(r);
    return r;
  }();
  return registry;
}

}  // namespace iron
