// Running a test case on a device and judging its outputs, whole.
#pragma once

#include <functional>

#include "iron/library.h"
#include "runtime/backend.h"

namespace iron::runtime {

/// The verdict on one case. `max_error` is absolute for |expected| <= 1 and relative above; `cosine` is 1 for exact
/// cases.
struct Outcome {
  bool passed = false;
  f64 max_error = 0, cosine = 1;
  std::string message;  ///< why it failed: the first element at fault with what it is and should be, or the refusal
};

/// Buffers of a case on a device, shared between its steps by host address; freed with it.
class BoundCase {
 public:
  BoundCase(Backend& backend, const Case& c);
  ~BoundCase();
  BoundCase(const BoundCase&) = delete;

  /// Checks the launch contract of every step, then launches them in order.
  void launch();
  /// Copies the expected outputs back into the case's arrays.
  void download();
  struct Prepared {
    std::shared_ptr<Executable> exe;
    LaunchGeometry geometry;
    std::vector<LaunchArg> args;
  };
  const std::vector<Prepared>& steps() const { return steps_; }

 private:
  Backend& backend_;
  const Case& case_;
  struct DeviceBuffer {
    void* host;
    void* device;
    u64 bytes;
    bool written;
  };
  std::vector<DeviceBuffer> buffers_;
  std::vector<Prepared> steps_;
};

/// The device has what the kernel needs beyond the base set.
bool runs(const Backend& backend, const KernelEntry& kernel);

/// Compares every expectation over its full length. NaN equals NaN, an infinity equals itself, anything one-sided
/// fails.
Outcome judge(const Case& c, Tolerance tolerance);

/// One element of an expectation, as `judge` compares it.
bool passes(const Expectation& e, u64 i, Tolerance tolerance);

/// Launches and judges, by `judge` where one is given; refusals become failed outcomes with the whole text.
Outcome run_case(Backend& backend, const Case& c, Tolerance tolerance,
                 const std::function<Outcome(const Case&)>& judge = {});

}  // namespace iron::runtime
