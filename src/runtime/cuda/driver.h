// The CUDA driver, opened at run time, with our own minimal declarations.
#pragma once

#include <string_view>

#include "core/dynlib.h"
#include "iron/types.h"

namespace iron::runtime::cuda {

using CUresult = int;
using CUdevice = int;
using CUdeviceptr = u64;
using CUcontext = struct OpaqueContext*;
using CUmodule = struct OpaqueModule*;
using CUfunction = struct OpaqueFunction*;
using CUstream = struct OpaqueStream*;
using CUevent = struct OpaqueEvent*;
using CUgraph = struct OpaqueGraph*;
using CUgraphExec = struct OpaqueGraphExec*;
using CUgraphNode = struct OpaqueGraphNode*;
using CUmemoryPool = struct OpaqueMemoryPool*;

/// CUlaunchAttribute and CUlaunchConfig of the driver's ABI.
struct alignas(8) LaunchAttribute {
  static constexpr int cluster_dimension = 4, programmatic_serialization = 6;
  int id = 0;
  int padding = 0;
  unsigned value[16] = {};
};
struct LaunchConfig {
  unsigned grid[3] = {1, 1, 1}, block[3] = {1, 1, 1}, shared_bytes = 0;
  CUstream stream = nullptr;
  LaunchAttribute* attributes = nullptr;
  unsigned attribute_count = 0;
};
static_assert(sizeof(LaunchAttribute) == 72 && sizeof(LaunchConfig) == 56);

/// Attribute numbers of the driver's ABI.
namespace attribute {
inline constexpr int max_threads_per_block = 1, clock_rate = 13, multiprocessor_count = 16, l2_bytes = 38,
                     compute_major = 75, compute_minor = 76, shared_optin = 97;
inline constexpr int function_shared = 1, function_local = 3, function_registers = 4, function_max_dynamic_shared = 8;
}  // namespace attribute

/// Every function is bound, or the driver is refused as too old.
struct Driver {
  static const Driver& get();  ///< throws iron::Error: CUDA10 no driver, CUDA11 too old, CUDA12 it does not start
  static bool available(std::string* why = nullptr);

  int version = 0;  ///< 13000 is 13.0

#define IRON_CUDA_FUNCTIONS(F)                                                                               \
  F(Init, "cuInit", (unsigned))                                                                              \
  F(DriverGetVersion, "cuDriverGetVersion", (int*))                                                          \
  F(GetErrorName, "cuGetErrorName", (CUresult, const char**))                                                \
  F(GetErrorString, "cuGetErrorString", (CUresult, const char**))                                            \
  F(DeviceGetCount, "cuDeviceGetCount", (int*))                                                              \
  F(DeviceGet, "cuDeviceGet", (CUdevice*, int))                                                              \
  F(DeviceGetName, "cuDeviceGetName", (char*, int, CUdevice))                                                \
  F(DeviceGetAttribute, "cuDeviceGetAttribute", (int*, int, CUdevice))                                       \
  F(DeviceTotalMem, "cuDeviceTotalMem_v2", (std::size_t*, CUdevice))                                         \
  F(DeviceGetPCIBusId, "cuDeviceGetPCIBusId", (char*, int, CUdevice))                                        \
  F(PrimaryCtxRetain, "cuDevicePrimaryCtxRetain", (CUcontext*, CUdevice))                                    \
  F(CtxSetCurrent, "cuCtxSetCurrent", (CUcontext))                                                           \
  F(ModuleLoadData, "cuModuleLoadData", (CUmodule*, const void*))                                            \
  F(ModuleUnload, "cuModuleUnload", (CUmodule))                                                              \
  F(ModuleGetFunction, "cuModuleGetFunction", (CUfunction*, CUmodule, const char*))                          \
  F(FuncGetAttribute, "cuFuncGetAttribute", (int*, int, CUfunction))                                         \
  F(FuncSetAttribute, "cuFuncSetAttribute", (CUfunction, int, int))                                          \
  F(Occupancy, "cuOccupancyMaxActiveBlocksPerMultiprocessor", (int*, CUfunction, int, std::size_t))          \
  F(StreamCreate, "cuStreamCreate", (CUstream*, unsigned))                                                   \
  F(StreamDestroy, "cuStreamDestroy_v2", (CUstream))                                                         \
  F(StreamQuery, "cuStreamQuery", (CUstream))                                                                \
  F(StreamWaitEvent, "cuStreamWaitEvent", (CUstream, CUevent, unsigned))                                     \
  F(StreamGetCaptureInfo, "cuStreamGetCaptureInfo_v2",                                                       \
    (CUstream, int*, u64*, CUgraph*, const CUgraphNode**, std::size_t*))                                     \
  F(StreamSynchronize, "cuStreamSynchronize", (CUstream))                                                    \
  F(StreamBeginCapture, "cuStreamBeginCapture_v2", (CUstream, int))                                          \
  F(StreamEndCapture, "cuStreamEndCapture", (CUstream, CUgraph*))                                            \
  F(GraphInstantiate, "cuGraphInstantiateWithFlags", (CUgraphExec*, CUgraph, unsigned long long))            \
  F(GraphUpload, "cuGraphUpload", (CUgraphExec, CUstream))                                                   \
  F(GraphLaunch, "cuGraphLaunch", (CUgraphExec, CUstream))                                                   \
  F(GraphExecKernelNodeSetParams, "cuGraphExecKernelNodeSetParams", (CUgraphExec, CUgraphNode, const void*)) \
  F(GraphExecDestroy, "cuGraphExecDestroy", (CUgraphExec))                                                   \
  F(GraphDestroy, "cuGraphDestroy", (CUgraph))                                                               \
  F(EventCreate, "cuEventCreate", (CUevent*, unsigned))                                                      \
  F(EventRecord, "cuEventRecord", (CUevent, CUstream))                                                       \
  F(EventQuery, "cuEventQuery", (CUevent))                                                                   \
  F(EventSynchronize, "cuEventSynchronize", (CUevent))                                                       \
  F(EventElapsedTime, "cuEventElapsedTime", (float*, CUevent, CUevent))                                      \
  F(EventDestroy, "cuEventDestroy_v2", (CUevent))                                                            \
  F(MemPoolCreate, "cuMemPoolCreate", (CUmemoryPool*, const void*))                                          \
  F(MemPoolDestroy, "cuMemPoolDestroy", (CUmemoryPool))                                                      \
  F(MemPoolSetAttribute, "cuMemPoolSetAttribute", (CUmemoryPool, int, void*))                                \
  F(MemPoolGetAttribute, "cuMemPoolGetAttribute", (CUmemoryPool, int, void*))                                \
  F(MemPoolTrimTo, "cuMemPoolTrimTo", (CUmemoryPool, std::size_t))                                           \
  F(MemAllocFromPoolAsync, "cuMemAllocFromPoolAsync", (CUdeviceptr*, std::size_t, CUmemoryPool, CUstream))   \
  F(MemFreeAsync, "cuMemFreeAsync", (CUdeviceptr, CUstream))                                                 \
  F(MemcpyHtoDAsync, "cuMemcpyHtoDAsync_v2", (CUdeviceptr, const void*, std::size_t, CUstream))              \
  F(MemcpyDtoHAsync, "cuMemcpyDtoHAsync_v2", (void*, CUdeviceptr, std::size_t, CUstream))                    \
  F(MemsetD8Async, "cuMemsetD8Async", (CUdeviceptr, unsigned char, std::size_t, CUstream))                   \
  F(TensorMapEncodeTiled, "cuTensorMapEncodeTiled",                                                          \
    (void*, int, unsigned, void*, const u64*, const u64*, const u32*, const u32*, int, int, int, int))       \
  F(LaunchKernelEx, "cuLaunchKernelEx", (const LaunchConfig*, CUfunction, void**, void**))

#define F(name, symbol, parameters) CUresult(*name) parameters = nullptr;
  IRON_CUDA_FUNCTIONS(F)
#undef F

  /// Throws iron::Error (CUDA20) naming the call and the driver's reason, unless the result is success.
  void check(CUresult result, std::string_view what) const;

 private:
  Driver();
  DynamicLibrary library_;
};

}  // namespace iron::runtime::cuda
