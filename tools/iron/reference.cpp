#include "reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>

#include "iron/error.h"
#include "runtime/cuda/backend.h"
#include "runtime/cuda/cublaslt.h"

namespace iron::tool {

std::optional<ProductCase> product_case(const KernelEntry& entry, const Case& c) {
  if (c.steps.size() != 1) return std::nullopt;
  const auto& args = c.steps[0].args;
  const auto operands = kernels::gemm_operands(entry, args);
  if (!operands) return std::nullopt;
  const auto& q = operands->problem;
  ProductCase p;
  p.bench = &c;
  p.kind = {q.input, q.output, q.e4m3, q.weight_major}, p.shape = {q.m, q.n, q.k};
  for (const auto& a : args) {
    if (a.scalar) continue;
    if (a.buffer.data == operands->a) p.a = &a;
    if (a.buffer.data == operands->b) p.b = &a;
    if (a.buffer.data == operands->c) p.c = &a;
  }
  return p;
}

std::optional<kernels::GemmSelection> selection_for(const runtime::Backend& device, const KernelEntry& entry,
                                                    const Case& c) {
  if (c.steps.size() != 1) return std::nullopt;
  const auto operands = kernels::gemm_operands(entry, c.steps[0].args);
  if (!operands) return std::nullopt;
  return kernels::select_gemm(operands->problem, device.info().features, device.info().units);
}

Case selected_case(const kernels::GemmSelection& selection, const KernelEntry& entry, const Case& c) {
  const auto o = *kernels::gemm_operands(entry, c.steps[0].args);
  const std::shared_ptr<KernelInstance> kernel = selection.entry->instance();
  if (!selection.spec.empty()) kernel->specialise(selection.spec);
  kernels::bind_gemm(*kernel, selection.member->form, o.problem.m, o.problem.n, o.problem.k, o.a, o.b, o.c);
  Step s;
  s.key = kernel->key(), s.args = kernel->arguments(), s.grid = kernel->grid();
  s.record = [kernel, name = selection.entry->full_name()] { return kernel->record(name); };
  Case out = c;
  out.steps = {std::move(s)};
  return out;
}

namespace {
std::vector<std::byte> bytes_of(const BoundArg& a) {
  const auto* from = static_cast<const std::byte*>(a.buffer.data);
  return {from, from + a.buffer.bytes};
}
}  // namespace

std::function<runtime::Outcome(const Case&)> oracle_judge(runtime::Backend& device, const ProductCase& p,
                                                          Tolerance tolerance) {
  auto data = std::make_shared<ProductData>(ProductData{p.kind, p.shape, bytes_of(*p.a), bytes_of(*p.b)});
  auto expected = std::make_shared<std::vector<f64>>(product_oracle(device, *data, 0));
  return [data, expected, out = p.c->buffer, limit = tolerance.of(p.kind.output)](const Case&) {
    const std::span got(static_cast<const std::byte*>(out.data), out.bytes);
    const auto v = judge_product(*data, got, *expected, limit, 0);
    return runtime::Outcome{v.passed, v.max_error, v.cosine, v.message};
  };
}

Reference measure_reference(runtime::Backend& backend, const ProductCase& p,
                            const std::function<runtime::Outcome(const Case&)>& judge,
                            const bench::TimerOptions& options, u32 copies, const bench::MeasureLock&) {
  using namespace runtime::cuda;
  auto& device = dynamic_cast<CudaBackend&>(backend);
  std::vector<std::unique_ptr<runtime::BoundCase>> bound;
  for (u32 i = 0; i < std::max(copies, 1u); ++i)
    bound.push_back(std::make_unique<runtime::BoundCase>(backend, *p.bench));
  const auto& args = p.bench->steps[0].args;
  const auto at = [&](u64 copy, const BoundArg* which) {
    return bound[copy % bound.size()]->steps()[0].args[static_cast<std::size_t>(which - args.data())].data;
  };
  const VendorGemm vendor(
      device, {p.shape.m, p.shape.n, p.shape.k, p.kind.input, p.kind.output, p.kind.e4m3, p.kind.weight_major, 1});
  u32 which = 0;
  const auto launch = [&](CUstream stream, u64 copy) {
    return vendor.launch(which, at(copy, p.a), at(copy, p.b), at(copy, p.c), stream);
  };
  while (which < vendor.count() && !launch(device.stream(), 0)) ++which;
  if (which == vendor.count())
    throw Error("CUDA07", fmt::format("cuBLASLt refuses every algorithm of its own for {}", to_string(p.shape)));
  Reference r;
  r.name = vendor.describe(which);
  device.fill(at(0, p.c), 0xff, p.c->buffer.bytes);
  launch(device.stream(), 0);
  bound[0]->download();
  const auto outcome = judge(*p.bench);
  if (!outcome.passed)
    throw Error("BENCH06", fmt::format("the reference, {}, gives a wrong result: {}", r.name, outcome.message),
                "pin another algorithm with IRON_GEMM_ALGO");
  r.max_error = outcome.max_error;

  // As the kernel is timed: batches, replayed as one graph where launching would be what is timed.
  u64 next = 0;
  const auto timed = [&](const auto& work) {
    const CudaEvent begin(device, device.stream());
    work();
    return CudaEvent(device, device.stream()).seconds_since(begin);
  };
  const auto batch_seconds = [&](u32 count) {
    return timed([&] {
      for (u32 i = 0; i < count; ++i) launch(device.stream(), next++);
    });
  };
  u32 batch = 1;
  for (f64 us = batch_seconds(1) * 1e6; us < options.least_sample_us && batch < 65536; us = batch_seconds(batch) * 1e6)
    batch *= 2;
  std::unique_ptr<Recorded> graph;
  constexpr f64 graphs_below = 20e-6;
  if (batch_seconds(batch) < batch * graphs_below)
    graph = std::make_unique<Recorded>(device, [&](CUstream stream) {
      for (u32 i = 0; i < batch; ++i) launch(stream, i);
    });
  const auto sample = [&] { return graph ? timed([&] { graph->replay(); }) : batch_seconds(batch); };
  for (u32 i = 0; i < options.warmup; ++i) sample();
  std::vector<f64> us;
  const auto start = std::chrono::steady_clock::now();
  const auto spent = [&] { return std::chrono::duration<f64>(std::chrono::steady_clock::now() - start).count(); };
  while (us.size() < options.samples && (us.size() < 3 || spent() < options.budget_seconds))
    us.push_back(sample() * 1e6 / batch);
  r.summary = bench::summarise(us);
  return r;
}

}  // namespace iron::tool
