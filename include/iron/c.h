/* Iron from C, and from every language that can call C: devices, memory, the library's kernels by name, launches.
 *
 *   iron_device* cpu; iron_kernel* softmax;
 *   iron_device_open("cpu", &cpu);
 *   iron_kernel_create(cpu, "softmax", IRON_F32, NULL, &softmax);
 *   const iron_argument args[] = {iron_memory("x", IRON_F32, x, sizeof x), iron_memory("y", IRON_F32, y, sizeof y),
 *                                 iron_integer("n", 1024)};
 *   iron_launch(softmax, args, 3, NULL);
 *   iron_device_synchronize(cpu);
 *
 * Every function that can fail returns an iron_status; iron_last_error() then says on the same thread what is wrong and
 * what to do. Handles are made by *_create and *_open and given back by *_destroy and *_close, which take NULL. A
 * handle keeps alive what it came from. Functions may be called from several threads; calls on one device are put in
 * order.
 *
 * The interface only grows: functions, struct members and enumerators keep their meaning within one IRON_C_ABI, and
 * structs that a later version may extend carry their size.
 */
#ifndef IRON_C_H
#define IRON_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* C's words for types and null pointers: NOLINTBEGIN(modernize-*,performance-no-int-to-ptr) */
#define IRON_API __attribute__((visibility("default")))
#define IRON_C_ABI 1

typedef enum iron_status {
  IRON_OK = 0,
  IRON_INVALID_ARGUMENT = 1, /* a null pointer, an argument that is missing, unknown or out of range */
  IRON_NOT_FOUND = 2,        /* no kernel, device or specialisation field of that name */
  IRON_WRONG_TYPE = 3,       /* an element type that the kernel does not take */
  IRON_REFUSED = 4,          /* the launch would leave a buffer, overlap, or does not fit the device: nothing ran */
  IRON_UNAVAILABLE = 5,      /* the device, its driver or its compiler is not on this machine */
  IRON_OUT_OF_MEMORY = 6,
  IRON_COMPILE_FAILED = 7,
  IRON_UNSUPPORTED = 8,   /* the device lacks what was asked for */
  IRON_DEVICE_FAILED = 9, /* the device reported an error, or the interpreter a finding, while running */
  IRON_INTERNAL = 10      /* a fault of Iron's own */
} iron_status;

/* Element types. Values are part of the interface. */
typedef enum iron_dtype {
  IRON_NO_DTYPE = 0,
  IRON_BOOL = 1,
  IRON_I8 = 2,
  IRON_U8 = 3,
  IRON_I16 = 4,
  IRON_U16 = 5,
  IRON_I32 = 6,
  IRON_U32 = 7,
  IRON_I64 = 8,
  IRON_U64 = 9,
  IRON_F16 = 10,
  IRON_BF16 = 11,
  IRON_F32 = 12,
  IRON_F64 = 13
} iron_dtype;

typedef struct iron_device iron_device;
typedef struct iron_buffer iron_buffer;
typedef struct iron_kernel iron_kernel;
typedef struct iron_stream iron_stream;
typedef struct iron_event iron_event;
typedef struct iron_graph iron_graph;

/* --- versions and errors */

IRON_API uint32_t iron_abi_version(void);                  /* IRON_C_ABI of the library that is loaded */
IRON_API const char* iron_version(void);                   /* "0.1.0" */
IRON_API const char* iron_status_name(iron_status status); /* "IRON_REFUSED"; "unknown status" for other numbers */
/* What the last call on this thread that failed had to say: one or more lines with the place and the remedy, and the
 * stable code of its first finding ("D25"). Valid until the next call that fails on this thread; never NULL. */
IRON_API const char* iron_last_error(void);
IRON_API const char* iron_last_error_code(void);

IRON_API const char* iron_dtype_name(iron_dtype dtype);     /* "f32"; "none" for other numbers */
IRON_API iron_dtype iron_dtype_from_name(const char* name); /* IRON_NO_DTYPE if there is none */
IRON_API size_t iron_dtype_size(iron_dtype dtype);          /* bytes of an element; 0 for IRON_NO_DTYPE */

/* --- devices */

/* Names of the devices that this library was built for, whether or not they can start here: "cpu", "cuda",
 * "interpreter". NULL past the end. */
IRON_API size_t iron_backend_count(void);
IRON_API const char* iron_backend_name(size_t index);

/* Opens a device by the name of its backend. Opening it again gives another handle to the same device. */
IRON_API iron_status iron_device_open(const char* name, iron_device** device);
IRON_API void iron_device_close(iron_device* device);

typedef struct iron_device_info {
  size_t size; /* set it to sizeof(iron_device_info) */
  const char *backend, *name, *api, *architecture;
  const char* features; /* capabilities, separated by blanks */
  uint32_t simd_width;  /* lanes in hardware; kernels see 32 */
  uint32_t units;       /* cores or multiprocessors */
  uint32_t max_threads_per_group;
  uint32_t host_memory; /* 1: launches take any host memory; 0: memory of this device only */
  uint64_t shared_bytes, memory_bytes, cache_bytes;
} iron_device_info;
/* Texts live as long as the process. */
IRON_API iron_status iron_device_describe(const iron_device* device, iron_device_info* info);

/* Waits until everything launched on the device is done. */
IRON_API iron_status iron_device_synchronize(iron_device* device);

/* --- buffers */

/* Memory of a device, aligned to 256 bytes; its contents are undefined until set. */
IRON_API iron_status iron_buffer_create(iron_device* device, uint64_t bytes, iron_buffer** buffer);
IRON_API void iron_buffer_destroy(iron_buffer* buffer);
IRON_API void* iron_buffer_data(const iron_buffer* buffer); /* a device address; NULL for NULL */
IRON_API uint64_t iron_buffer_bytes(const iron_buffer* buffer);
/* Copies wait for the launches before them, and are done when they return. Offsets and sizes are bytes. */
IRON_API iron_status iron_buffer_upload(iron_buffer* buffer, uint64_t offset, const void* from, uint64_t bytes);
IRON_API iron_status iron_buffer_download(const iron_buffer* buffer, uint64_t offset, void* to, uint64_t bytes);
IRON_API iron_status iron_buffer_fill(iron_buffer* buffer, uint8_t byte);

/* The buffer as a DLPack tensor, contiguous in that shape: a DLManagedTensor, or with `versioned` a
 * DLManagedTensorVersioned of version 1.0. It keeps the memory alive beyond the handle; whoever consumes it calls its
 * deleter. The second function is for Python: the destructor of a capsule that holds one of the two. */
IRON_API iron_status iron_buffer_dlpack(const iron_buffer* buffer, iron_dtype dtype, const int64_t* shape,
                                        size_t dimensions, int versioned, void** managed);
IRON_API void iron_dlpack_capsule_destructor(void* capsule);

/* --- kernels */

typedef struct iron_kernel_info {
  size_t size; /* set it to sizeof(iron_kernel_info) */
  const char *name, *family;
  const char* file;        /* the source that defines it */
  const char* doc;         /* what it computes */
  const char* determinism; /* "bitwise", or what may differ between runs */
  const char* shapes;      /* "x, y: [..., n]": where scalars follow from shapes; else "" */
  iron_dtype dtype;
  uint32_t parameters; /* how many iron_kernel_parameter knows: optional ones that are absent are not counted */
  uint32_t has_grid;   /* 1: the grid follows from the arguments; 0: launches state it */
  const char* needs;   /* the capability without which a device refuses the kernel; else "" */
} iron_kernel_info;

/* The library, one entry a kernel and element type. Texts live as long as the process. */
IRON_API size_t iron_library_count(void);
IRON_API iron_status iron_library_entry(size_t index, iron_kernel_info* info);

/* A kernel of the library for a device. `name` may leave "iron_" out. `specialisation` is NULL or sets fields by name,
 * "head_dim=64,causal=true,bias=present"; iron_kernel_specialisation() shows them. Compilation happens in the first
 * launch, or in iron_kernel_compile(). */
IRON_API iron_status iron_kernel_create(iron_device* device, const char* name, iron_dtype dtype,
                                        const char* specialisation, iron_kernel** kernel);
IRON_API void iron_kernel_destroy(iron_kernel* kernel);
IRON_API iron_status iron_kernel_describe(const iron_kernel* kernel, iron_kernel_info* info);
IRON_API const char* iron_kernel_specialisation(const iron_kernel* kernel); /* lives as long as the kernel */
/* "gemm" without a specialisation stands for its family: a launch that states no grid goes to the member that fits the
 * device, the shape and the alignment. Which one took the last launch and why, "iron_gemm_tma_bf16: ...", until the
 * next launch; NULL before the first one and for kernels that stand for themselves. */
IRON_API const char* iron_kernel_member(const iron_kernel* kernel);

typedef enum iron_parameter_kind { IRON_IN = 0, IRON_OUT = 1, IRON_INOUT = 2, IRON_SCALAR = 3 } iron_parameter_kind;
typedef struct iron_parameter {
  size_t size; /* set it to sizeof(iron_parameter) */
  const char* name;
  iron_parameter_kind kind;
  iron_dtype dtype;
  uint32_t optional; /* 1: a buffer that is there by specialisation */
  uint32_t tensor;   /* 1: a buffer whose dimensions the argument states: iron_tensor() */
} iron_parameter;
IRON_API iron_status iron_kernel_parameter(const iron_kernel* kernel, size_t index, iron_parameter* parameter);

/* --- launches */

typedef enum iron_argument_kind {
  IRON_ARGUMENT_BUFFER = 0,
  IRON_ARGUMENT_INTEGER = 1,
  IRON_ARGUMENT_REAL = 2
} iron_argument_kind;

/* An argument by the name of its parameter, in any order; make it with the functions below. */
typedef struct iron_argument {
  const char* name;
  iron_argument_kind kind;
  iron_dtype dtype; /* of a buffer's elements */
  void* data;       /* device address, or host memory where the device takes it */
  uint64_t bytes;
  int64_t integer;
  double real;
  uint32_t rank;           /* of a tensor: 1 to 5; else 0 */
  const uint64_t* dims;    /* elements, innermost first */
  const uint64_t* strides; /* bytes between rows, planes, ...: rank - 1 of them; NULL: packed */
} iron_argument;

/* Memory that the caller owns. It stays valid and unchanged by others until the launch is done. */
static inline iron_argument iron_memory(const char* name, iron_dtype dtype, const void* data, uint64_t bytes) {
  iron_argument a = {name, IRON_ARGUMENT_BUFFER, dtype, (void*)(uintptr_t)data, bytes, 0, 0, 0, NULL, NULL};
  return a;
}
static inline iron_argument iron_buffer_argument(const char* name, iron_dtype dtype, const iron_buffer* buffer) {
  return iron_memory(name, dtype, iron_buffer_data(buffer), iron_buffer_bytes(buffer));
}
/* A buffer that the kernel reaches as a tensor. The arrays stay valid until the launch returns. */
static inline iron_argument iron_tensor(const char* name, iron_dtype dtype, const void* data, uint64_t bytes,
                                        uint32_t rank, const uint64_t* dims, const uint64_t* strides) {
  iron_argument a = iron_memory(name, dtype, data, bytes);
  a.rank = rank, a.dims = dims, a.strides = strides;
  return a;
}
/* Scalars. A value that the parameter's type cannot hold is refused; a real number rounds once. */
static inline iron_argument iron_integer(const char* name, int64_t value) {
  iron_argument a = {name, IRON_ARGUMENT_INTEGER, IRON_NO_DTYPE, NULL, 0, value, 0, 0, NULL, NULL};
  return a;
}
static inline iron_argument iron_real(const char* name, double value) {
  iron_argument a = {name, IRON_ARGUMENT_REAL, IRON_NO_DTYPE, NULL, 0, 0, value, 0, NULL, NULL};
  return a;
}

typedef struct iron_launch_options {
  size_t size; /* set it to sizeof(iron_launch_options) */
  /* The grid, for kernels that do not know theirs: threadgroups, threads of one, items of an elementwise kernel. All
   * zero: the kernel's own. */
  uint32_t groups[3], threads[3];
  uint64_t items;
  iron_stream* stream; /* NULL: the device's own */
  uint32_t overlap;    /* 1: the device may set this kernel up while the one before it on the stream ends */
} iron_launch_options;

/* The grid that these arguments lead to, left in `grid`: groups, threads, items. */
IRON_API iron_status iron_kernel_grid(const iron_kernel* kernel, const iron_argument* arguments, size_t count,
                                      iron_launch_options* grid);
/* Compiles for the threadgroups that these arguments lead to, and launches nothing. */
IRON_API iron_status iron_kernel_compile(iron_kernel* kernel, const iron_argument* arguments, size_t count,
                                         const iron_launch_options* options);
/* Checks every argument and access against the kernel's contract, then launches; returns before the work is done where
 * the device allows it. Launches on one device run in order. `options` may be NULL. */
IRON_API iron_status iron_launch(iron_kernel* kernel, const iron_argument* arguments, size_t count,
                                 const iron_launch_options* options);

/* --- streams, events, graphs */

/* Work on a stream runs in order, beside that of other streams and of the device. A new stream sees what was enqueued
 * on the device before its first work; after that, events make the order. */
IRON_API iron_status iron_stream_create(iron_device* device, iron_stream** stream);
/* A stream of another library by its native handle (CUDA: a CUstream or cudaStream_t; NULL is the default stream). It
 * outlives the handle; the memory that launches on it use outlives their end, that of iron_buffers too.
 * IRON_UNSUPPORTED: the device has no such streams. */
IRON_API iron_status iron_stream_wrap(iron_device* device, void* native, iron_stream** stream);
IRON_API void iron_stream_destroy(iron_stream* stream); /* waits for nothing: the work goes on */
IRON_API iron_status iron_stream_synchronize(iron_stream* stream);
/* `done` becomes 1 where nothing is left to do, else 0. */
IRON_API iron_status iron_stream_idle(iron_stream* stream, int* done);

/* A place in a stream's work. */
IRON_API iron_status iron_event_record(iron_stream* stream, iron_event** event);
IRON_API void iron_event_destroy(iron_event* event);
IRON_API iron_status iron_event_synchronize(iron_event* event);
IRON_API iron_status iron_stream_wait(iron_stream* stream, const iron_event* event); /* later work starts after it */
/* Seconds on the device's clock from `earlier` to `later`; waits for both. */
IRON_API iron_status iron_event_seconds(const iron_event* earlier, const iron_event* later, double* seconds);

/* The launches that `body` makes on the stream, kept instead of run, to be replayed in order by one call without
 * checks. The memory of their arguments must outlive the last replay. A body that does not return IRON_OK ends the
 * capture with its status. */
IRON_API iron_status iron_stream_capture(iron_stream* stream, iron_status (*body)(void* context), void* context,
                                         iron_graph** graph);
IRON_API void iron_graph_destroy(iron_graph* graph);
IRON_API iron_status iron_graph_replay(const iron_graph* graph, iron_stream* stream);
IRON_API size_t iron_graph_size(const iron_graph* graph); /* launches */
/* NOLINTEND(modernize-*,performance-no-int-to-ptr) */

#ifdef __cplusplus
}
#endif
#endif
