// Timing under the measurement rules: no time without a passed check, none on a cold clock, never fewer samples than
// said.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "bench/session.h"
#include "bench/statistics.h"
#include "runtime/run_case.h"

namespace iron::bench {

/// Bytes of the buffers that a case touches, each counted once: what it moves at the least where it states nothing.
u64 buffer_bytes(const Case& c);

/// What decides about the outputs of a case that has run and been downloaded.
using Judge = std::function<runtime::Outcome(const Case&)>;

/// P2: proof that these kernels gave right results on this backend, at this shape, in this process. Only verify() makes
/// one, and measure() takes nothing else.
class Receipt {
 public:
  const std::string& id() const { return id_; }
  f64 max_error() const { return outcome_.max_error; }

 private:
  friend std::variant<Receipt, runtime::Outcome> verify(runtime::Backend&, const Case&, Tolerance, const Judge&);
  friend class Bench;
  std::string id_;
  runtime::Outcome outcome_;
  Receipt() = default;
};

/// Runs the case and judges it whole: a receipt, or why there is none. Without `judge` by its own expectations.
std::variant<Receipt, runtime::Outcome> verify(runtime::Backend& backend, const Case& c, Tolerance tolerance,
                                               const Judge& judge = {});

struct TimerOptions {
  u32 samples = 50, warmup = 20;
  f64 least_sample_us = 20;         ///< launches are batched until one sample takes that long
  f64 budget_seconds = 10;          ///< of one cell; fewer samples where a launch is slow, and then "low-n"
  bool cold = true;                 ///< P16: rotate copies of the buffers, thrice the last-level cache together
  u64 cache_bytes = 0;              ///< the last-level cache
  u64 memory_limit = u64{2} << 30;  ///< of all copies
};

struct Timing {
  std::vector<f64> samples_us;  ///< microseconds of one launch of the whole case
  Summary summary;
  u32 batch = 1, copies = 1, warmup = 0;
  bool cold = false;
  bool low_n = false;       ///< P5: fewer than 30 samples
  bool host_clock = false;  ///< P6: the host's clock around launches, for cases of several steps
  std::string receipt;
};

/// A case on a device, ready to be timed: its buffers are resident, so that nothing is transferred meanwhile (P3).
class Bench {
 public:
  /// Throws iron::Error (BENCH10) if the receipt is for something else.
  Bench(runtime::Backend& backend, const Case& c, const Receipt& receipt, const TimerOptions& options);
  ~Bench();
  /// Warms up and takes the samples. Needs the exclusive lock.
  Timing measure(const MeasureLock& lock);
  u64 working_set() const { return working_set_; }

 private:
  friend struct Paired measure_paired(Bench&, Bench&, const MeasureLock&);
  f64 run(u32 count);  ///< seconds of `count` launches of the whole case
  u32 choose_batch();
  runtime::Backend& backend_;
  TimerOptions options_;
  std::string receipt_;
  u64 working_set_ = 0;
  std::vector<std::unique_ptr<runtime::BoundCase>> copies_;
  std::size_t next_ = 0;
};

/// P8: two cases timed in turns, in both orders.
struct Paired {
  Timing a, b;
  Interval speedup;              ///< of b over a
  f64 a_first = 0, b_first = 0;  ///< the ratio of medians a / b in each order
  bool order_dependent = false;  ///< the orders disagree about which is faster: there is no verdict
};
Paired measure_paired(Bench& a, Bench& b, const MeasureLock& lock);

/// P15: microseconds of the least kernel (one store a lane of one simdgroup), on that backend.
f64 launch_floor_us(runtime::Backend& backend, const MeasureLock& lock);
/// P4: dummy launches for some time, before the first sample of a session.
void warm_clock(runtime::Backend& backend, f64 seconds);

}  // namespace iron::bench
