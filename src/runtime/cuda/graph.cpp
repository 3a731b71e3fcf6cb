// Graphs: captured from launches, with one node for each, whose parameters may change.
#include <fmt/format.h>

#include "runtime/cuda/backend.h"

namespace iron::runtime::cuda {

namespace {
// CUDA_KERNEL_NODE_PARAMS of the driver's ABI, first version.
struct KernelNode {
  CUfunction function;
  unsigned grid[3], block[3], shared_bytes;
  void** parameters;
  void** extra;
};
constexpr int this_thread_only = 1;  // other threads may call what a capture forbids
}  // namespace

CudaGraph::CudaGraph(CudaBackend& device, std::vector<Launch> launches)
    : device_(device),
      launches_(std::move(launches)),
      recorded_(device, [this](CUstream stream) { capture(stream); }) {}

void CudaGraph::capture(CUstream stream) {
  const auto& d = device_.driver();
  for (const auto& l : launches_) {
    const auto& exe = CudaBackend::own_kernel(l.exe);
    Arguments arguments(exe, l.geometry, l.args);
    device_.start(exe, l.geometry, arguments, stream, l.overlap);
    if (l.geometry.groups.count() == 0) {
      nodes_.push_back(nullptr);
      continue;
    }
    // The node just made is what later work of the stream would depend on.
    int status = 0;
    const CUgraphNode* last = nullptr;
    std::size_t count = 0;
    d.check(d.StreamGetCaptureInfo(stream, &status, nullptr, nullptr, &last, &count), "recording a graph");
    if (count != 1)
      throw Error("CUDA21", fmt::format("a captured launch left {} ends in the graph", count), "report this");
    nodes_.push_back(*last);
  }
}

void CudaGraph::set_args(std::size_t index, std::span<const LaunchArg> args) {
  device_.enter();
  auto& l = launches_.at(index);
  const auto& exe = CudaBackend::own_kernel(l.exe);
  Arguments arguments(exe, l.geometry, args);
  if (nodes_[index]) {
    const Dim3 g = exe.grid(l.geometry.groups), t = l.geometry.threads;
    const KernelNode node{exe.function(),   {g.x, g.y, g.z},
                          {t.x, t.y, t.z},  static_cast<unsigned>(exe.source().dynamic_shared_bytes),
                          arguments.data(), nullptr};
    device_.driver().check(device_.driver().GraphExecKernelNodeSetParams(recorded_.executable(), nodes_[index], &node),
                           fmt::format("changing the arguments of {}", exe.kernel().name));
  }
  l.args.assign(args.begin(), args.end());
}

Recorded::Recorded(CudaBackend& device, const std::function<void(CUstream)>& work) : device_(device) {
  device_.enter();
  const auto& d = device_.driver();
  CUstream stream = nullptr;
  d.check(d.StreamCreate(&stream, 1), "creating a stream");
  try {
    d.check(d.StreamBeginCapture(stream, this_thread_only), "recording a graph");
    work(stream);
    d.check(d.StreamEndCapture(stream, &graph_), "recording a graph");
    d.check(d.GraphInstantiate(&replay_, graph_, 0), "building a graph");
    d.check(d.GraphUpload(replay_, device_.stream()), "uploading a graph");
  } catch (...) {
    CUgraph unfinished = nullptr;
    if (!graph_) d.StreamEndCapture(stream, &unfinished);
    for (CUgraph g : {graph_, unfinished})
      if (g) d.GraphDestroy(g);
    d.StreamDestroy(stream);
    throw;
  }
  d.check(d.StreamDestroy(stream), "ending a stream");
}

Recorded::~Recorded() {
  // A replay under way keeps what it needs.
  device_.driver().GraphExecDestroy(replay_);
  device_.driver().GraphDestroy(graph_);
}

void Recorded::replay() const { replay(device_.stream()); }
void Recorded::replay(CUstream stream) const {
  device_.driver().check(device_.driver().GraphLaunch(replay_, stream), "replaying a graph");
}

}  // namespace iron::runtime::cuda
