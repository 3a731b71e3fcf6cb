#include "bench/timer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <map>

#include "core/hash.h"
#include "iron/dsl.h"
#include "iron/error.h"
#include "runtime/compile.h"

namespace iron::bench {

using Clock = std::chrono::steady_clock;

u64 buffer_bytes(const Case& c) {
  std::map<const void*, u64> seen;
  for (const auto& s : c.steps)
    for (const auto& a : s.args)
      if (!a.scalar) seen[a.buffer.data] = std::max(seen[a.buffer.data], a.buffer.bytes);
  u64 total = 0;
  for (const auto& [data, bytes] : seen) total += bytes;
  return total;
}

namespace {

f64 since(Clock::time_point start) { return std::chrono::duration<f64>(Clock::now() - start).count(); }

// What a receipt is for: backend, session, kernels, geometry and sizes.
std::string receipt_id(const runtime::Backend& backend, const Case& c) {
  std::string text = backend.info().backend + "|" + backend.info().name + "|" + session_id();
  for (const auto& s : c.steps) {
    text += fmt::format("|{}|{},{},{}|{},{},{}|{}", s.key, s.grid.groups.x, s.grid.groups.y, s.grid.groups.z,
                        s.grid.threads.x, s.grid.threads.y, s.grid.threads.z, s.grid.items);
    for (const auto& a : s.args) text += fmt::format("|{}:{}:{}", a.name, a.buffer.bytes, a.scalar ? a.bits : 0);
  }
  return hash128(text).hex();
}

// The least that a kernel may do: one store a lane of one simdgroup.
struct Least {
  static constexpr Mode mode = Mode::Threadgroup;
  Out<u32> words;
  Grid grid() const { return {Threadgroups{1}, Threads{32}}; }
  void operator()() const { words[thread_id()] = cast<u32>(thread_id()); }
};

struct LeastLaunch {
  explicit LeastLaunch(runtime::Backend& b)
      : backend(b), compiled(runtime::compile_for(b.info().backend, iron::record(unbound<Least>(), "least"))) {
    exe = backend.prepare(*compiled->optimised, {32, 1, 1});
    memory = backend.allocate(256);
    args.push_back({{memory, 256, 0}});
  }
  ~LeastLaunch() { backend.release(memory); }
  LeastLaunch(const LeastLaunch&) = delete;
  f64 seconds(u32 count) { return backend.time_launches(exe, {{1, 1, 1}, {32, 1, 1}, 0}, args, count); }
  runtime::Backend& backend;
  std::shared_ptr<const runtime::Compiled> compiled;
  std::shared_ptr<runtime::Executable> exe;
  void* memory = nullptr;
  std::vector<std::vector<LaunchArg>> args;
};

}  // namespace

std::variant<Receipt, runtime::Outcome> verify(runtime::Backend& backend, const Case& c, Tolerance tolerance,
                                               const Judge& judge) {
  auto outcome = runtime::run_case(backend, c, tolerance, judge);
  if (!outcome.passed) return outcome;
  Receipt r;
  r.id_ = receipt_id(backend, c);
  r.outcome_ = std::move(outcome);
  return r;
}

Bench::Bench(runtime::Backend& backend, const Case& c, const Receipt& receipt, const TimerOptions& options)
    : backend_(backend), options_(options), receipt_(receipt.id()), working_set_(buffer_bytes(c)) {
  if (receipt.id() != receipt_id(backend, c))
    throw Error("BENCH10", "the receipt is for another kernel, shape or device", "verify the case that is timed");
  u64 copies = 1;
  if (options.cold && options.cache_bytes && working_set_ > 0) {
    copies = std::clamp<u64>((3 * options.cache_bytes + working_set_ - 1) / working_set_, 1, 4096);
    copies = std::clamp<u64>(options.memory_limit / working_set_, 1, copies);
  }
  for (u64 i = 0; i < copies; ++i) copies_.push_back(std::make_unique<runtime::BoundCase>(backend, c));
}

Bench::~Bench() { backend_.synchronize(); }

f64 Bench::run(u32 count) {
  const auto& first = copies_.front()->steps();
  if (first.size() == 1) {
    std::vector<std::vector<LaunchArg>> args;
    const std::size_t used = std::min<std::size_t>(copies_.size(), count);
    for (std::size_t i = 0; i < used; ++i) args.push_back(copies_[(next_ + i) % copies_.size()]->steps()[0].args);
    next_ = (next_ + count) % copies_.size();
    return backend_.time_launches(first[0].exe, first[0].geometry, args, count);
  }
  backend_.synchronize();
  const auto start = Clock::now();
  for (u32 i = 0; i < count; ++i) {
    for (const auto& s : copies_[next_]->steps()) backend_.launch(s.exe, s.geometry, s.args);
    next_ = (next_ + 1) % copies_.size();
  }
  backend_.synchronize();
  return since(start);
}

// Doubles until one sample is long enough for the clock.
u32 Bench::choose_batch() {
  u32 batch = 1;
  for (f64 us = run(1) * 1e6; batch < 65536; us = run(batch) * 1e6) {
    if (us >= options_.least_sample_us) break;
    const f64 grow = us > 0 ? std::ceil(options_.least_sample_us / us * 1.2) : 2;
    batch = static_cast<u32>(std::min(65536.0, batch * std::clamp(grow, 2.0, 64.0)));
  }
  return batch;
}

Timing Bench::measure(const MeasureLock&) {
  Timing t;
  t.receipt = receipt_;
  t.copies = static_cast<u32>(copies_.size());
  t.cold = options_.cold && options_.cache_bytes && t.copies * working_set_ >= 3 * options_.cache_bytes;
  t.host_clock = copies_.front()->steps().size() > 1;
  const auto start = Clock::now();
  t.batch = choose_batch();
  for (; t.warmup < options_.warmup && (t.warmup == 0 || since(start) < 0.3 * options_.budget_seconds); ++t.warmup)
    run(t.batch);
  while (t.samples_us.size() < options_.samples && (t.samples_us.size() < 3 || since(start) < options_.budget_seconds))
    t.samples_us.push_back(run(t.batch) * 1e6 / t.batch);
  t.summary = summarise(t.samples_us);
  t.low_n = t.summary.samples < 30;
  return t;
}

Paired measure_paired(Bench& a, Bench& b, const MeasureLock& lock) {
  Paired p;
  // Half of the samples in each order.
  const auto halves = [&](Bench& first, Bench& second, Timing& tf, Timing& ts) {
    tf = first.measure(lock);
    ts = second.measure(lock);
  };
  Timing a1, b1, a2, b2;
  halves(a, b, a1, b1);
  halves(b, a, b2, a2);
  p.a_first = a1.summary.median / b1.summary.median;
  p.b_first = a2.summary.median / b2.summary.median;
  p.order_dependent = (p.a_first > 1) != (p.b_first > 1);
  const auto joined = [](Timing x, const Timing& y) {
    x.samples_us.insert(x.samples_us.end(), y.samples_us.begin(), y.samples_us.end());
    x.summary = summarise(x.samples_us);
    x.low_n = x.summary.samples < 30;
    return x;
  };
  p.a = joined(std::move(a1), a2), p.b = joined(std::move(b1), b2);
  p.speedup = speedup_interval(p.a.samples_us, p.b.samples_us);
  return p;
}

f64 launch_floor_us(runtime::Backend& backend, const MeasureLock&) {
  LeastLaunch least(backend);
  f64 best = 1e30;
  for (int i = 0; i < 20; ++i) least.seconds(20);
  for (int i = 0; i < 50; ++i) best = std::min(best, least.seconds(20) / 20);
  return best * 1e6;
}

void warm_clock(runtime::Backend& backend, f64 seconds) {
  LeastLaunch least(backend);
  for (const auto start = Clock::now(); since(start) < seconds;) least.seconds(50);
}

}  // namespace iron::bench
