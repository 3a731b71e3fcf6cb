// Bursts, blocks and replays of arms.
#include "tune_measure.h"

#include <algorithm>
#include <cmath>

namespace iron::tool {

using runtime::cuda::CudaBackend;
using runtime::cuda::CudaEvent;
using runtime::cuda::CUstream;
using Clock = runtime::cuda::GpuSampler::Clock;

namespace {

constexpr f64 graphs_below_us = 100;  // above, submitting costs nothing that is seen
constexpr f64 steady_from_us = 50;    // below, no launch is long enough for a clock of its own to matter
constexpr f64 warm_seconds = 0.2;

f64 timed(CudaBackend& device, const std::function<void()>& work) {
  device.enter();
  const CudaEvent begin(device, device.stream());
  work();
  return CudaEvent(device, device.stream()).seconds_since(begin);
}

// An arm with its place in the rotation, launched one by one or as replays of a graph.
class Runner {
 public:
  Runner(CudaBackend& device, const Arm& arm, u32 graph_launches) : device_(device), arm_(arm) {
    if (!graph_launches) return;
    graph_launches_ = graph_launches;
    graph_ = std::make_unique<runtime::cuda::Recorded>(device, [&](CUstream stream) {
      for (u32 i = 0; i < graph_launches; ++i) arm.enqueue(stream, i);
    });
    graph_->replay();  // the first one sets it up
  }
  /// Seconds of one launch, of at least `launches`.
  f64 seconds(u64 launches) {
    if (!graph_)
      return timed(device_,
                   [&] {
                     for (u64 i = 0; i < launches; ++i) arm_.enqueue(device_.stream(), next_++);
                   }) /
             static_cast<f64>(launches);
    const u64 replays = std::max<u64>(1, (launches + graph_launches_ - 1) / graph_launches_);
    return timed(device_,
                 [&] {
                   for (u64 i = 0; i < replays; ++i) graph_->replay();
                 }) /
           static_cast<f64>(replays * graph_launches_);
  }

 private:
  CudaBackend& device_;
  const Arm& arm_;
  std::unique_ptr<runtime::cuda::Recorded> graph_;
  u32 graph_launches_ = 0;
  u64 next_ = 0;
};

u64 launches_in(f64 seconds, f64 us) {
  return static_cast<u64>(std::clamp(seconds * 1e6 / std::max(us, 0.1), 1.0, 1e6));
}

// Every arm once a round, forwards and backwards in turn.
template <class F>
void in_turns(u32 rounds, std::size_t arms, F f) {
  for (u32 r = 0; r < rounds; ++r)
    for (std::size_t i = 0; i < arms; ++i) f(r % 2 ? arms - 1 - i : i);
}

std::vector<f64> ratios(const std::vector<f64>& base, const std::vector<f64>& own) {
  std::vector<f64> out;
  for (std::size_t i = 0; i < own.size(); ++i) out.push_back(base[i] / own[i]);
  return out;
}

}  // namespace

Range range_of(std::vector<f64> v) {
  if (v.empty()) return {};
  std::sort(v.begin(), v.end());
  const auto n = v.size();
  return {v.front(), n % 2 ? v[n / 2] : 0.5 * (v[n / 2 - 1] + v[n / 2]), v.back()};
}

f64 quick_us(CudaBackend& device, const Arm& arm, u32 launches, u32 repeats, bool replay) {
  Runner runner(device, arm, replay ? launches : 0);
  f64 best = 1e30;
  for (u32 i = 0; i < repeats; ++i) best = std::min(best, runner.seconds(launches));
  return best * 1e6;
}

Measurement measure_arms(CudaBackend& device, const std::vector<Arm>& arms, u32 copies,
                         const runtime::cuda::GpuSampler& sampler, const MeasureOptions& options,
                         const bench::MeasureLock&) {
  Measurement m;
  std::vector<f64> estimate;
  for (const auto start = Clock::now(); Clock::now() - start < std::chrono::duration<f64>(warm_seconds);)
    quick_us(device, arms.front(), 20, 1);
  for (const auto& a : arms) estimate.push_back(quick_us(device, a, 5, 3));
  // One rule for all arms: the shortest decides, so that none is timed with what a launch costs the host.
  const bool replay = *std::min_element(estimate.begin(), estimate.end()) < graphs_below_us;
  const u32 in_graph = replay ? (20 + copies - 1) / copies * copies : 0;
  std::vector<std::unique_ptr<Runner>> runners;
  for (const auto& a : arms) runners.push_back(std::make_unique<Runner>(device, a, in_graph));
  if (replay)
    for (std::size_t i = 0; i < arms.size(); ++i) estimate[i] = runners[i]->seconds(in_graph) * 1e6;

  m.steady = *std::min_element(estimate.begin(), estimate.end()) >= steady_from_us;
  m.rule = std::string(replay ? "graph replay, " : "") + (m.steady ? "steady and interleaved" : "interleaved");
  m.rounds = m.steady ? options.steady_rounds : options.replay_rounds;
  std::vector<std::vector<f64>> mixed(arms.size()), alone(arms.size()), mhz(arms.size()), watts(arms.size());
  const auto note = [&](std::size_t i, Clock::time_point from) {
    const auto mean = sampler.between(from, Clock::now());
    if (mean.mhz) mhz[i].push_back(*mean.mhz);
    if (mean.watts) watts[i].push_back(*mean.watts);
  };
  in_turns(m.steady ? options.interleaved_rounds : options.replay_rounds, arms.size(), [&](std::size_t i) {
    const auto n = launches_in(options.burst_seconds, estimate[i]);
    runners[i]->seconds(std::max<u64>(1, n / 8));  // what the arm before left in the caches goes
    const auto from = Clock::now();
    mixed[i].push_back(runners[i]->seconds(n) * 1e6);
    if (!m.steady) note(i, from);
  });
  if (m.steady)
    in_turns(options.steady_rounds, arms.size(), [&](std::size_t i) {
      runners[i]->seconds(launches_in(options.settle_seconds, estimate[i]));
      const auto from = Clock::now();
      alone[i].push_back(runners[i]->seconds(launches_in(options.block_seconds, estimate[i])) * 1e6);
      note(i, from);
    });
  const auto mean = [](const std::vector<f64>& v) -> std::optional<f64> {
    if (v.empty()) return std::nullopt;
    f64 sum = 0;
    for (const f64 x : v) sum += x;
    return sum / static_cast<f64>(v.size());
  };
  for (std::size_t i = 0; i < arms.size(); ++i) {
    ArmTiming t;
    t.interleaved_us = range_of(mixed[i]);
    t.interleaved_ratio = range_of(ratios(mixed[0], mixed[i]));
    t.us = m.steady ? range_of(alone[i]) : t.interleaved_us;
    if (m.steady) t.ratio = range_of(ratios(alone[0], alone[i]));
    t.mhz = mean(mhz[i]), t.watts = mean(watts[i]);
    m.arms.push_back(t);
  }
  return m;
}

}  // namespace iron::tool
