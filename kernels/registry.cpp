#include "registry.h"

namespace iron {

const Registry& standard_library() {
  static const Registry registry = [] {
    Registry r;
    kernels::register_rms_norm(r);

    // unary
    kernels::register_unary_exact(r);
    kernels::register_unary_transcendental(r);
    kernels::register_scalar_fused(r);
    // binary
    kernels::register_binary_arithmetic(r);
    kernels::register_data_movement(r);
    kernels::register_gates(r);
    // rope
    kernels::register_rope(r);
    kernels::register_rope_scaled(r);
    // index
    kernels::register_gather(r);
    kernels::register_scatter(r);
    // sampling
    kernels::register_sampling(r);
    kernels::register_logits(r);
    return r;
  }();
  return registry;
}

}  // namespace iron
