#include "registry.h"

namespace iron {

const Registry& standard_library() {
  static const Registry registry = [] {
    Registry r;
    kernels::register_rms_norm(r);
    // language models
    kernels::register_gguf(r);
    kernels::register_cached_attention(r);
    kernels::register_swiglu_rows(r);
    kernels::register_sample_greedy(r);
    return r;
  }();
  return registry;
}

}  // namespace iron
