// Streams of the devices that compute on the host: they share the device's one list of work, in the order of the calls.
#pragma once

#include <chrono>

#include "runtime/stream.h"

namespace iron::runtime {

/// An event of a host device. Recording one ends what was enqueued, so that its time is the device's.
class HostEvent final : public Event {
 public:
  explicit HostEvent(const void* device) : device_(device) {}
  bool done() const override { return true; }
  void synchronize() const override {}
  double seconds_since(const Event& earlier) const override {
    return std::chrono::duration<double>(at_ - own<const HostEvent>(earlier, "event").at_).count();
  }
  const void* device() const { return device_; }

 private:
  const void* device_;
  std::chrono::steady_clock::time_point at_ = std::chrono::steady_clock::now();
};

/// A graph that is replayed launch by launch.
class LaunchList : public Graph {
 public:
  explicit LaunchList(std::vector<Launch> launches) : launches_(std::move(launches)) {}
  std::size_t size() const override { return launches_.size(); }
  const Launch& launch(std::size_t index) const override { return launches_.at(index); }
  void set_args(std::size_t index, std::span<const LaunchArg> args) override {
    launches_.at(index).args.assign(args.begin(), args.end());
  }

 private:
  std::vector<Launch> launches_;
};

/// Every call goes to the backend, whose work is in order: any order of the calls that events allow is kept.
class HostStream : public Stream {
 public:
  explicit HostStream(Backend& backend) : backend_(backend) {}
  void launch(const Launch& l) override { backend_.launch(l.exe, l.geometry, l.args); }
  void upload(void* to, const void* from, u64 bytes) override { backend_.upload(to, from, bytes); }
  void download(void* to, const void* from, u64 bytes) override { backend_.download(to, from, bytes); }
  void fill(void* to, u8 byte, u64 bytes) override { backend_.fill(to, byte, bytes); }
  void* allocate(u64 bytes) override { return backend_.allocate(bytes); }
  void release(void* data) override { backend_.release(data); }
  void replay(Graph& graph) override {
    for (std::size_t i = 0; i < graph.size(); ++i) launch(graph.launch(i));
  }
  std::unique_ptr<Event> record() override {
    backend_.synchronize();
    return std::make_unique<HostEvent>(&backend_);
  }
  void wait(const Event& event) override { own<const HostEvent>(event, "event"); }
  bool idle() override {
    backend_.synchronize();
    return true;
  }
  void synchronize() override { backend_.synchronize(); }

 protected:
  Backend& backend_;
};

}  // namespace iron::runtime
