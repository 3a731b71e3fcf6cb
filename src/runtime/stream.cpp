// The public streams, events and graphs over those of a backend.
#include "runtime/stream.h"

#include "iron/runtime/stream.h"
#include "runtime/device_state.h"

namespace iron {

const runtime::Event& Event::get() const {
  if (!impl_) throw Error("RT12", "an event that was never recorded", "make it with Stream::record");
  return *impl_;
}
bool Event::done() const { return get().done(); }
void Event::synchronize() const { get().synchronize(); }
double Event::seconds_since(const Event& earlier) const { return get().seconds_since(earlier.get()); }

std::size_t Graph::size() const { return graph_ ? graph_->size() : 0; }
void Graph::set_args(std::size_t launch, std::span<const LaunchArg> args) {
  if (launch >= size())
    throw Error("RT13", "launch " + std::to_string(launch) + " of a graph of " + std::to_string(size()) + " launches",
                "launches are numbered from 0 in the order of their capture");
  kernels_[launch].state().check(args, graph_->launch(launch).geometry);
  graph_->set_args(launch, args);
}

struct Stream::Capture {
  std::vector<runtime::Launch> launches;
  std::vector<PreparedKernel> kernels;
};

Stream::Stream(const Device& device) : device_(device), stream_(device.backend().make_stream()) {}
Stream::Stream(const Device& device, void* native) : device_(device), stream_(device.backend().wrap_stream(native)) {}
Stream::Stream(Stream&&) noexcept = default;
Stream& Stream::operator=(Stream&&) noexcept = default;
Stream::~Stream() = default;

void Stream::launch(const PreparedKernel& kernel, std::span<const LaunchArg> args, const LaunchGeometry& geometry,
                    LaunchOptions options) {
  const auto& state = kernel.state();
  if (state.backend != &device_.backend())
    throw Error("RT11", "kernel " + state.exe->kernel().name + " was prepared for another device",
                "prepare it on the stream's device");
  state.check(args, geometry);
  runtime::Launch l{state.exe, geometry, {args.begin(), args.end()}, options.overlap};
  if (!captured_) return stream_->launch(l);
  captured_->launches.push_back(std::move(l));
  captured_->kernels.push_back(kernel);
}

u64 Stream::check(u64 size, u64 at, u64 n) {
  if (at > size || n > size - at)
    throw Error("RT02", "a copy of " + std::to_string(n) + " elements at " + std::to_string(at) +
                            " leaves a buffer of " + std::to_string(size) + " elements");
  return at;
}
void Stream::not_while_capturing(const char* what) const {
  if (captured_)
    throw Error("RT10", std::string(what) + " cannot be captured",
                "capture launches only, and do this before or after");
}
void Stream::copy_in(void* to, const void* from, u64 bytes) {
  not_while_capturing("a copy to the device");
  if (bytes) stream_->upload(to, from, bytes);
}
void Stream::copy_out(void* to, const void* from, u64 bytes) {
  not_while_capturing("a copy from the device");
  if (bytes) stream_->download(to, from, bytes);
}
void Stream::fill(void* to, u8 byte, u64 bytes) {
  not_while_capturing("a fill");
  if (bytes) stream_->fill(to, byte, bytes);
}
Event Stream::record() {
  not_while_capturing("an event");
  return Event(stream_->record());
}
void Stream::wait(const Event& event) {
  not_while_capturing("a wait");
  stream_->wait(event.get());
}
bool Stream::idle() const { return stream_->idle(); }
void Stream::synchronize() const {
  not_while_capturing("a synchronisation");
  stream_->synchronize();
}

void Stream::begin_capture() {
  not_while_capturing("a capture");
  captured_ = std::make_unique<Capture>();
}
void Stream::drop_capture() { captured_.reset(); }
Graph Stream::end_capture() {
  const auto captured = std::move(captured_);
  if (captured->launches.empty()) throw Error("RT10", "the capture holds no launch", "launch on the captured stream");
  Graph g;
  g.device_ = device_.state_;
  g.graph_ = device_.backend().build_graph(std::move(captured->launches));
  g.kernels_ = std::move(captured->kernels);
  return g;
}
void Stream::replay(const Graph& graph) {
  not_while_capturing("a replay");
  if (!graph) throw Error("RT12", "a graph that was never captured", "make it with Stream::capture");
  if (graph.device_ != device_.state_)
    throw Error("RT11", "this graph was captured on another device", "capture it on a stream of this device");
  stream_->replay(*graph.graph_);
}

}  // namespace iron
