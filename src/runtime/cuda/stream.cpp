// Streams and events of one GPU.
#include "runtime/cuda/backend.h"

namespace iron::runtime::cuda {

namespace {
constexpr CUresult not_ready = 600;
CUdeviceptr address(const void* p) { return reinterpret_cast<std::uintptr_t>(p); }
}  // namespace

// --- events

CudaEvent::CudaEvent(const CudaBackend& device, CUstream stream) : device_(device) {
  const auto& d = device_.driver();
  d.check(d.EventCreate(&event_, 0), "creating an event");
  d.check(d.EventRecord(event_, stream), "recording an event");
}
CudaEvent::~CudaEvent() { device_.driver().EventDestroy(event_); }

bool CudaEvent::done() const {
  device_.enter();
  const CUresult r = device_.driver().EventQuery(event_);
  if (r == not_ready) return false;
  device_.driver().check(r, "asking for an event");
  return true;
}
void CudaEvent::synchronize() const {
  device_.enter();
  device_.driver().check(device_.driver().EventSynchronize(event_), "waiting for an event");
}
double CudaEvent::seconds_since(const Event& earlier) const {
  const auto& begin = own<const CudaEvent>(earlier, "event");
  begin.synchronize(), synchronize();
  float ms = 0;
  device_.driver().check(device_.driver().EventElapsedTime(&ms, begin.event_, event_), "reading the device's clock");
  return ms * 1e-3;
}

// --- streams

CudaStream::CudaStream(CudaBackend& device) : device_(device) {
  device_.enter();
  device_.driver().check(device_.driver().StreamCreate(&stream_, 1), "creating a stream");
  device_.order(device_.stream(), stream_);
  seen_ = device_.allocations();
}
CudaStream::~CudaStream() {
  if (foreign_) return;
  device_.forget(*this);
  device_.driver().StreamDestroy(stream_);  // the driver ends it when its work is done
}

void CudaStream::begin() {
  device_.enter();
  used_ = true;
  if (seen_ == device_.allocations()) return;
  seen_ = device_.allocations();
  device_.order(device_.stream(), stream_);
}

void CudaStream::launch(const Launch& l) {
  begin();
  const auto& exe = CudaBackend::own_kernel(l.exe);
  Arguments arguments(exe, l.geometry, l.args);
  device_.start(exe, l.geometry, arguments, stream_, l.overlap);
}
void CudaStream::upload(void* to, const void* from, u64 bytes) {
  begin();
  device_.driver().check(device_.driver().MemcpyHtoDAsync(address(to), from, bytes, stream_), "copying to the device");
}
void CudaStream::download(void* to, const void* from, u64 bytes) {
  begin();
  device_.driver().check(device_.driver().MemcpyDtoHAsync(to, address(from), bytes, stream_),
                         "copying from the device");
}
void CudaStream::fill(void* to, u8 byte, u64 bytes) {
  begin();
  device_.driver().check(device_.driver().MemsetD8Async(address(to), byte, bytes, stream_), "filling memory");
}
void* CudaStream::allocate(u64 bytes) {
  begin();
  return device_.pool().allocate(bytes, stream_);
}
void CudaStream::release(void* data) {
  begin();
  if (data) device_.pool().release(data, stream_);
}
void CudaStream::replay(Graph& graph) {
  begin();
  own<CudaGraph>(graph, "graph").replay(stream_);
}
std::unique_ptr<Event> CudaStream::record() {
  begin();
  return std::make_unique<CudaEvent>(device_, stream_);
}
void CudaStream::wait(const Event& event) {
  begin();
  device_.driver().check(device_.driver().StreamWaitEvent(stream_, own<const CudaEvent>(event, "event").get(), 0),
                         "waiting for an event");
}
bool CudaStream::idle() {
  device_.enter();
  const CUresult r = device_.driver().StreamQuery(stream_);
  if (r == not_ready) return false;
  device_.driver().check(r, "asking a stream");
  return true;
}
void CudaStream::synchronize() {
  device_.enter();
  device_.driver().check(device_.driver().StreamSynchronize(stream_), "waiting for a stream");
}

}  // namespace iron::runtime::cuda
