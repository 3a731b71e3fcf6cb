#include "tune_product.h"

#include <fmt/format.h>

#include <algorithm>

#include "bundle.h"
#include "iron/error.h"
#include "runtime/compile.h"

namespace iron::tool {

using runtime::cuda::CudaBackend;
using runtime::cuda::CUstream;

f64 product_limit(const KernelEntry& entry, DType output) {
  f64 limit = 0;
  for (const auto& t : entry.tests) limit = std::max(limit, t.tolerance.of(output));
  return limit;
}

ProductProblem::ProductProblem(CudaBackend& device, const ProductKind& kind, const ProductShape& shape, u64 seed,
                               u32 threads)
    : device_(device),
      kind_(kind),
      shape_(shape),
      threads_(threads),
      data_(make_product(kind, shape, seed, threads)),
      expected_(product_oracle(device, data_, threads)) {
  constexpr u64 most_copies = 256;
  const u64 cold = 3 * device.info().cache_bytes, size = kind.b_bytes(shape);
  const u64 copies = std::clamp<u64>((cold + size - 1) / size, 1, most_copies);
  a_ = device.allocate(kind.a_bytes(shape));
  device.upload(a_, data_.a.data(), data_.a.size());
  for (u64 i = 0; i < copies; ++i) {
    b_.push_back(device.allocate(size));
    device.upload(b_.back(), data_.b.data(), size);
  }
  c_ = device.allocate(kind.c_bytes(shape));
}

ProductProblem::~ProductProblem() {
  device_.synchronize();
  for (void* b : b_) device_.release(b);
  for (void* p : {a_, c_})
    if (p) device_.release(p);
}

// What a launch of one of our kernels needs, for each copy of B.
struct ProductProblem::Launch {
  std::shared_ptr<runtime::Executable> exe;
  LaunchGeometry geometry;
  std::vector<std::unique_ptr<runtime::cuda::Arguments>> arguments;
};

void ProductProblem::add(const LoadedKernel& kernel) {
  const auto& form = kernels::find_gemm_member(kernel.entry->name)->form;
  const auto instance = kernel.kernel->clone();
  const auto compiled = runtime::compile_for("cuda", instance->record(kernel.entry->full_name()));
  analysis::DeviceLimits limits;
  limits.max_threads_per_group = device_.info().max_threads_per_group;
  if (device_.info().shared_bytes) limits.shared_bytes = device_.info().shared_bytes;
  auto launch = std::make_shared<Launch>();
  for (void* b : b_) {
    bind_product(*instance, form, shape_, a_, b, c_);
    const Grid g = instance->grid();
    launch->geometry = {{g.groups.x, g.groups.y, g.groups.z}, {g.threads.x, g.threads.y, g.threads.z}, g.items};
    std::vector<LaunchArg> args;
    for (const auto& a : instance->arguments()) args.push_back(a.launch_arg(a.scalar ? nullptr : a.buffer.data));
    if (auto problems = analysis::check(compiled->contract, launch->geometry, args, limits); !problems.empty())
      throw Error(std::move(problems));
    if (!launch->exe) launch->exe = device_.prepare(*compiled->optimised, launch->geometry.threads);
    launch->arguments.push_back(
        std::make_unique<runtime::cuda::Arguments>(CudaBackend::own_kernel(launch->exe), launch->geometry, args));
  }
  Solver s{kernel.entry->full_name(), kernel.spec, &kernel, {}, {}};
  s.arm = {s.name, [this, launch](CUstream stream, u64 copy) {
             device_.start(CudaBackend::own_kernel(launch->exe), launch->geometry,
                           *launch->arguments[copy % launch->arguments.size()], stream);
           }};
  s.verdict = verdict(s.arm, product_limit(*kernel.entry, kind_.output));
  solvers_.push_back(std::move(s));
}

std::vector<std::byte> ProductProblem::result_of(const Arm& arm) {
  std::vector<std::byte> c(kind_.c_bytes(shape_));
  device_.fill(c_, 0xff, c.size());
  arm.enqueue(device_.stream(), 0);
  device_.synchronize();
  device_.download(c.data(), c_, c.size());
  return c;
}

ProductVerdict ProductProblem::verdict(const Arm& arm, f64 limit) {
  return judge_product(data_, result_of(arm), expected_, limit, threads_);
}

void ProductProblem::add_vendor() {
  const auto options = runtime::cuda::vendor_options();
  vendor_ = std::make_unique<runtime::cuda::VendorGemm>(
      device_,
      runtime::cuda::VendorProblem{shape_.m, shape_.n, shape_.k, kind_.input, kind_.output, kind_.e4m3,
                                   kind_.weight_major, 1},
      options);
  const auto arm_of = [this](u32 which) {
    return Arm{"cuBLASLt", [this, which](CUstream stream, u64 copy) {
                 if (!vendor_->launch(which, a_, b_[copy % b_.size()], c_, stream))
                   throw Error("CUDA07",
                               fmt::format("{} refuses a launch that it took before", vendor_->describe(which)));
               }};
  };
  // All of them briefly, then the quickest few once more.
  std::vector<std::pair<f64, u32>> timed;
  for (u32 i = 0; i < vendor_->count(); ++i) {
    if (!vendor_->launch(i, a_, b_[0], c_, device_.stream())) continue;
    timed.emplace_back(quick_us(device_, arm_of(i), 3, 2), i);
  }
  std::sort(timed.begin(), timed.end());
  constexpr f64 graphs_below_us = 100;
  const bool replay = !timed.empty() && timed.front().first < graphs_below_us;
  timed.resize(std::min<std::size_t>(timed.size(), replay ? 12 : 5));
  for (auto& [us, which] : timed) us = quick_us(device_, arm_of(which), replay ? 20 : 12, 3, replay);
  std::sort(timed.begin(), timed.end());
  f64 limit = 0;
  for (const auto& s : solvers_) limit = std::max(limit, product_limit(*s.kernel->entry, kind_.output));
  for (const auto& [us, which] : timed) {
    Solver s{"cuBLASLt", vendor_->describe(which), nullptr, arm_of(which), {}};
    const auto c = result_of(s.arm);
    s.verdict = judge_product(data_, c, expected_, limit, threads_);
    if (!s.verdict.passed) continue;
    if (!options.atomics && result_of(s.arm) != c) continue;
    solvers_.insert(solvers_.begin(), std::move(s));
    return;
  }
  throw Error("CUDA07",
              fmt::format("no algorithm of cuBLASLt for {} passes the check{}", to_string(shape_),
                          options.atomics ? "" : " and gives the same bits twice"),
              "'--no-reference' times without it");
}

}  // namespace iron::tool
