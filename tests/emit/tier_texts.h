// The tier's kernels with a spec, and their text, for the tests of its emission.
#pragma once

#include <string>
#include <string_view>

#include "attention/attention_tma.h"
#include "emit/cuda/cuda.h"
#include "gemm/gemm_tma.h"
#include "gemm/gemm_tma_blocks.h"
#include "runtime/compile.h"

namespace iron::tier_texts {

template <class K>
K gemm(u32 cluster) {
  auto k = unbound<K>();
  k.spec.cluster = cluster;
  return k;
}
template <class T>
kernels::AttentionTma<T> attention(bool causal) {
  auto k = unbound<kernels::AttentionTma<T>>();
  k.spec.causal = causal;
  return k;
}

/// For sm_90a; `leave_out` names the parts that a mutated emitter forgets.
template <class K>
emit::Source emitted(const K& kernel, u32 leave_out = 0) {
  u32 threads = 0;
  if constexpr (requires { kernel.spec.threads(); })
    threads = kernel.spec.threads();
  else
    threads = kernel.spec.threads;
  const auto compiled = runtime::compile_for("cuda", record(kernel, "kernel"));
  return emit::emit_cuda(*compiled->optimised, {threads, 1, 1}, target::profile("sm_90a"), {.leave_out = leave_out});
}

inline std::string from_signature(const std::string& text) { return text.substr(text.find("extern \"C\"")); }
inline std::size_t count(const std::string& text, std::string_view word) {
  std::size_t n = 0;
  for (auto at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++n;
  return n;
}

}  // namespace iron::tier_texts
