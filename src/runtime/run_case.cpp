#include "runtime/run_case.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>

#include "runtime/compile.h"

namespace iron::runtime {

namespace {

// Steps with one key record one kernel: recording is done once a process.
std::shared_ptr<const Compiled> compiled_step(std::string_view backend, const Step& step) {
  static std::mutex mutex;
  static std::map<std::string, std::shared_ptr<const Compiled>> known;
  const std::string key = std::string(backend) + "|" + step.key;
  const std::lock_guard lock(mutex);
  auto& entry = known[key];
  if (!entry) entry = compile_for(backend, step.record());
  return entry;
}

Dim3 dim(Threadgroups g) { return {g.x, g.y, g.z}; }
Dim3 dim(Threads t) { return {t.x, t.y, t.z}; }

f64 element(DType type, const void* data, u64 i) {
  const auto* bytes = static_cast<const std::byte*>(data) + i * dtype_size(type);
  const auto read = [&]<class T>(T) {
    T v;
    std::memcpy(&v, bytes, sizeof v);
    return static_cast<f64>(v);
  };
  switch (type) {
    case DType::boolean:
    case DType::u8:
      return read(u8{});
    case DType::i8:
      return read(i8{});
    case DType::i16:
      return read(i16{});
    case DType::u16:
      return read(u16{});
    case DType::i32:
      return read(i32{});
    case DType::u32:
      return read(u32{});
    case DType::i64:
    case DType::index:
      return read(i64{});
    case DType::u64:
      return read(u64{});
    case DType::f16:
      return read(f16{});
    case DType::bf16:
      return read(bf16{});
    case DType::f32:
      return read(f32{});
    case DType::f64:
      return read(f64{});
    case DType::none:
      break;
  }
  return 0;
}

}  // namespace

bool runs(const Backend& backend, const KernelEntry& kernel) {
  const auto& features = backend.info().features;
  return kernel.needs.empty() || std::find(features.begin(), features.end(), kernel.needs) != features.end();
}

BoundCase::BoundCase(Backend& backend, const Case& c) : backend_(backend), case_(c) {
  const auto device_of = [&](const BoundArg& a) {
    for (auto& b : buffers_)
      if (b.host == a.buffer.data && b.bytes == a.buffer.bytes) {
        b.written |= a.access != detail::Access::in;
        return b.device;
      }
    void* device = backend_.allocate(std::max<u64>(a.buffer.bytes, 16));
    if (a.buffer.bytes) backend_.upload(device, a.buffer.data, a.buffer.bytes);
    buffers_.push_back({a.buffer.data, device, a.buffer.bytes, a.access != detail::Access::in});
    return device;
  };
  for (const auto& step : c.steps) {
    const auto compiled = compiled_step(backend.info().backend, step);
    Prepared p;
    p.geometry = {dim(step.grid.groups), dim(step.grid.threads), step.grid.items};
    std::vector<DType> given;
    for (const auto& a : step.args) {
      given.push_back(a.dtype);
      p.args.push_back(a.launch_arg(a.scalar ? nullptr : device_of(a)));
    }
    analysis::DeviceLimits limits;
    limits.max_threads_per_group = backend.info().max_threads_per_group;
    limits.shared_bytes = backend.info().shared_bytes ? backend.info().shared_bytes : ~u64{0};
    auto problems = analysis::check_dtypes(*compiled->optimised, given);
    const auto refused = analysis::check(compiled->contract, p.geometry, p.args, limits);
    problems.insert(problems.end(), refused.begin(), refused.end());
    if (!problems.empty()) throw Error(std::move(problems));
    p.exe = backend.prepare(*compiled->optimised, p.geometry.threads);
    steps_.push_back(std::move(p));
  }
}

BoundCase::~BoundCase() {
  for (const auto& b : buffers_) backend_.release(b.device);
}

void BoundCase::launch() {
  for (const auto& s : steps_) backend_.launch(s.exe, s.geometry, s.args);
}

void BoundCase::download() {
  backend_.synchronize();
  for (const auto& b : buffers_)
    if (b.written && b.bytes) backend_.download(b.host, b.device, b.bytes);
}

namespace {
/// One value against what is expected: both NaN or the same infinity, or the error of two finite numbers.
struct Difference {
  bool same = false;  ///< not finite, and equal in that
  bool finite = false;
  f64 error = 0;
};
Difference difference(f64 got, f64 want) {
  if ((std::isnan(want) && std::isnan(got)) || (std::isinf(want) && got == want)) return {true, false, 0};
  if (!std::isfinite(got) || !std::isfinite(want)) return {};
  return {false, true, std::abs(got - want) / std::max(1.0, std::abs(want))};
}
}  // namespace

bool passes(const Expectation& e, u64 i, Tolerance tolerance) {
  if (e.exact) {
    const u64 size = dtype_size(e.dtype);
    return std::memcmp(static_cast<const std::byte*>(e.data) + i * size, e.bytes.data() + i * size, size) == 0;
  }
  const Difference d = difference(element(e.dtype, e.data, i), e.values[i]);
  return d.same || (d.finite && d.error <= tolerance.of(e.dtype));
}

Outcome judge(const Case& c, Tolerance tolerance) {
  Outcome out;
  out.passed = true;
  if (c.expectations.empty()) return {false, 0, 0, "the case expects nothing: a test that cannot fail"};
  const auto fail = [&](std::string message) {
    if (out.passed) out.message = std::move(message);
    out.passed = false;
  };
  for (const auto& e : c.expectations) {
    if (e.exact) {
      const auto* got = static_cast<const std::byte*>(e.data);
      for (u64 i = 0; i < e.bytes.size(); ++i)
        if (got[i] != e.bytes[i]) {
          const u64 n = i / dtype_size(e.dtype);
          fail(fmt::format("{}[{}] is {}, expected {} exactly", e.name, n, element(e.dtype, got, n),
                           element(e.dtype, e.bytes.data(), n)));
          break;
        }
      continue;
    }
    const f64 limit = tolerance.of(e.dtype);
    f64 dot = 0, got2 = 0, want2 = 0;
    for (u64 i = 0; i < e.values.size(); ++i) {
      const f64 want = e.values[i], got = element(e.dtype, e.data, i);
      const Difference d = difference(got, want);
      if (d.same) continue;
      if (!d.finite) {
        fail(fmt::format("{}[{}] is {}, expected {}", e.name, i, got, want));
        continue;
      }
      dot += got * want, got2 += got * got, want2 += want * want;
      const f64 error = d.error;
      out.max_error = std::max(out.max_error, error);
      if (error > limit)
        fail(fmt::format("{}[{}] is {}, expected {} (error {:.3g}, allowed {:.3g})", e.name, i, got, want, error,
                         limit));
    }
    if (want2 > 0 && got2 > 0)
      out.cosine = std::min(out.cosine, dot / std::sqrt(got2 * want2));
    else if (want2 > 0)
      out.cosine = 0;
    if (out.cosine < tolerance.cosine)
      fail(fmt::format("{}: cosine {:.6f} is below {:.6f}", e.name, out.cosine, tolerance.cosine));
  }
  return out;
}

Outcome run_case(Backend& backend, const Case& c, Tolerance tolerance,
                 const std::function<Outcome(const Case&)>& judge_with) {
  try {
    BoundCase bound(backend, c);
    bound.launch();
    bound.download();
  } catch (const Error& e) {
    return {false, 0, 0, e.what()};
  }
  return judge_with ? judge_with(c) : judge(c, tolerance);
}

}  // namespace iron::runtime
