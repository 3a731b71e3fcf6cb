// Streams, events and graphs: what a device offers beyond one launch after the other.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "iron/error.h"
#include "runtime/backend.h"

namespace iron::runtime {

/// One launch with its arguments; its contract was checked by the caller.
struct Launch {
  std::shared_ptr<Executable> exe;
  LaunchGeometry geometry;
  std::vector<LaunchArg> args;
  /// The device may set the kernel up while the one before it ends (programmatic dependent launch); it still reads and
  /// writes nothing before that one is done. Devices without it launch as ever.
  bool overlap = false;
};

/// A place in a stream's work.
class Event {
 public:
  virtual ~Event() = default;
  virtual bool done() const = 0;
  virtual void synchronize() const = 0;
  /// The device's time of passing, less that of `earlier`; waits for both.
  virtual double seconds_since(const Event& earlier) const = 0;
};

/// Launches built once, replayed in order by one call. The arguments' buffers must outlive the last replay.
class Graph {
 public:
  virtual ~Graph() = default;
  virtual std::size_t size() const = 0;
  virtual const Launch& launch(std::size_t index) const = 0;
  /// Replays that start later see the new arguments; those that are under way keep theirs.
  virtual void set_args(std::size_t index, std::span<const LaunchArg> args) = 0;
};

/// Work enqueued on a stream runs in order, beside that of other streams. A stream belongs to one thread at a time.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual void launch(const Launch& launch) = 0;
  /// The host's memory must stay as it is until the copy is done.
  virtual void upload(void* to, const void* from, u64 bytes) = 0;
  virtual void download(void* to, const void* from, u64 bytes) = 0;
  virtual void fill(void* to, u8 byte, u64 bytes) = 0;
  /// Memory that this stream's later work may use at once. Released memory is given to nobody whose work could meet
  /// what was enqueued before the release.
  virtual void* allocate(u64 bytes) = 0;
  virtual void release(void* data) = 0;
  virtual void replay(Graph& graph) = 0;
  virtual std::unique_ptr<Event> record() = 0;
  /// Later work of this stream starts after the event, which may be another stream's.
  virtual void wait(const Event& event) = 0;
  virtual bool idle() = 0;
  virtual void synchronize() = 0;
};

/// What `object` is on a backend of its own; throws RT11 if it came from another one.
template <class Own, class Base>
Own& own(Base& object, const char* what) {
  if (auto* mine = dynamic_cast<Own*>(&object)) return *mine;
  throw Error("RT11", std::string("this ") + what + " belongs to another kind of device",
              "use streams, events, graphs and kernels of one device together");
}

}  // namespace iron::runtime
