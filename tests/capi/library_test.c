/* The C interface from C11: listing, launching, every kind of error, memory of both kinds. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "iron/c.h"

static int failures = 0, checks = 0;
#define CHECK(condition)                                                                                   \
  do {                                                                                                     \
    ++checks;                                                                                              \
    if (!(condition)) {                                                                                    \
      ++failures;                                                                                          \
      fprintf(stderr, "%s:%d: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, iron_last_error()); \
    }                                                                                                      \
  } while (0)

/* The call fails with this status, a text that holds the words, and a code. */
static void refused(int line, iron_status got, iron_status expected, const char* words) {
  ++checks;
  if (got == expected && strstr(iron_last_error(), words) && *iron_last_error_code()) return;
  ++failures;
  fprintf(stderr, "%s:%d: status %s, not %s; or '%s' is not in: %s\n", __FILE__, line, iron_status_name(got),
          iron_status_name(expected), words, iron_last_error());
}
#define REFUSED(call, status, words) refused(__LINE__, (call), (status), (words))

enum { rows = 3, columns = 70, elements = rows * columns };

static void fill(float* x, float* want) {
  for (int r = 0; r < rows; ++r) {
    double top = -INFINITY, sum = 0;
    for (int i = 0; i < columns; ++i) {
      x[r * columns + i] = (float)((r * 31 + i * 17) % 23) * 0.25f - 2.0f;
      if (x[r * columns + i] > top) top = x[r * columns + i];
    }
    for (int i = 0; i < columns; ++i) sum += exp(x[r * columns + i] - top);
    for (int i = 0; i < columns; ++i) want[r * columns + i] = (float)(exp(x[r * columns + i] - top) / sum);
  }
}

static int close_to(const float* got, const float* want) {
  for (int i = 0; i < elements; ++i)
    if (!(fabsf(got[i] - want[i]) <= 1e-6f)) return 0;
  return 1;
}

static void versions_and_names(void) {
  CHECK(iron_abi_version() == IRON_C_ABI);
  CHECK(strcmp(iron_version(), IRON_EXPECTED_VERSION) == 0);
  CHECK(strcmp(iron_status_name(IRON_REFUSED), "IRON_REFUSED") == 0);
  CHECK(strcmp(iron_status_name((iron_status)77), "unknown status") == 0);
  for (int t = IRON_BOOL; t <= IRON_F64; ++t)
    CHECK(iron_dtype_from_name(iron_dtype_name((iron_dtype)t)) == (iron_dtype)t);
  CHECK(iron_dtype_from_name("index") == IRON_NO_DTYPE && iron_dtype_from_name(NULL) == IRON_NO_DTYPE);
  CHECK(iron_dtype_size(IRON_BF16) == 2 && iron_dtype_size((iron_dtype)99) == 0);
  CHECK(strcmp(iron_dtype_name((iron_dtype)-1), "none") == 0);
}

static void listing(void) {
  CHECK(iron_library_count() > 400);
  int found = 0;
  for (size_t i = 0; i < iron_library_count(); ++i) {
    iron_kernel_info info = {.size = sizeof info};
    CHECK(iron_library_entry(i, &info) == IRON_OK);
    CHECK(info.size == sizeof info && *info.name && *info.family && *info.file && *info.doc && info.parameters > 0);
    if (strcmp(info.name, "iron_softmax") == 0 && info.dtype == IRON_F32) {
      ++found;
      CHECK(info.parameters == 3 && info.has_grid == 1 && strcmp(info.shapes, "x, y: [..., n]") == 0);
    }
  }
  CHECK(found == 1);
  iron_kernel_info info = {.size = sizeof info};
  REFUSED(iron_library_entry(iron_library_count(), &info), IRON_NOT_FOUND, "entries");
  info.size = 0;
  REFUSED(iron_library_entry(0, &info), IRON_INVALID_ARGUMENT, "size");
  /* An older caller knows a shorter struct: nothing behind it is written. */
  struct {
    size_t size;
    const char *name, *family;
    const char* guard;
  } older = {offsetof(iron_kernel_info, file), NULL, NULL, "kept"};
  CHECK(iron_library_entry(0, (iron_kernel_info*)&older) == IRON_OK);
  CHECK(older.name && older.family && strcmp(older.guard, "kept") == 0);
}

static void devices(iron_device* device, const char* name) {
  iron_device_info info = {.size = sizeof info};
  CHECK(iron_device_describe(device, &info) == IRON_OK);
  CHECK(strcmp(info.backend, name) == 0 && *info.name && info.host_memory == 1);
  size_t here = 0;
  for (size_t i = 0; i < iron_backend_count(); ++i) here += strcmp(iron_backend_name(i), name) == 0;
  CHECK(here == 1 && iron_backend_name(iron_backend_count()) == NULL);
  iron_device* none = (iron_device*)&info;
  REFUSED(iron_device_open("abacus", &none), IRON_NOT_FOUND, "abacus");
  CHECK(none == NULL);
  REFUSED(iron_device_open(NULL, &none), IRON_INVALID_ARGUMENT, "name");
  REFUSED(iron_device_open(name, NULL), IRON_INVALID_ARGUMENT, "device");
  REFUSED(iron_device_synchronize(NULL), IRON_INVALID_ARGUMENT, "device");
}

static void launches(iron_device* device) {
  static float x[elements], want[elements], y[elements];
  fill(x, want);
  iron_kernel* softmax = NULL;
  CHECK(iron_kernel_create(device, "softmax", IRON_F32, NULL, &softmax) == IRON_OK);
  const char* names[] = {"x", "y", "n"};
  const iron_parameter_kind kinds[] = {IRON_IN, IRON_OUT, IRON_SCALAR};
  for (size_t i = 0; i < 3; ++i) {
    iron_parameter p = {.size = sizeof p};
    CHECK(iron_kernel_parameter(softmax, i, &p) == IRON_OK);
    CHECK(strcmp(p.name, names[i]) == 0 && p.kind == kinds[i] && p.dtype == (i < 2 ? IRON_F32 : IRON_U32) &&
          !p.optional);
  }
  iron_parameter p = {.size = sizeof p};
  REFUSED(iron_kernel_parameter(softmax, 3, &p), IRON_NOT_FOUND, "x (f32)");

  /* Memory of the caller, arguments in any order. */
  const iron_argument good[] = {iron_integer("n", columns), iron_memory("y", IRON_F32, y, sizeof y),
                                iron_memory("x", IRON_F32, x, sizeof x)};
  memset(y, 0xff, sizeof y);
  CHECK(iron_kernel_compile(softmax, good, 3, NULL) == IRON_OK);
  CHECK(y[0] != y[0]); /* compiled, not launched */
  CHECK(iron_launch(softmax, good, 3, NULL) == IRON_OK);
  CHECK(iron_device_synchronize(device) == IRON_OK);
  CHECK(close_to(y, want));

  /* A stated grid. */
  memset(y, 0xff, sizeof y);
  iron_launch_options options = {.size = sizeof options, .groups = {rows, 1, 1}, .threads = {64, 1, 1}};
  CHECK(iron_launch(softmax, good, 3, &options) == IRON_OK);
  CHECK(iron_device_synchronize(device) == IRON_OK);
  CHECK(close_to(y, want));
  options.groups[1] = 0;
  REFUSED(iron_launch(softmax, good, 3, &options), IRON_INVALID_ARGUMENT, "0");
  options.size = 0;
  REFUSED(iron_launch(softmax, good, 3, &options), IRON_INVALID_ARGUMENT, "size");

  /* Memory of the device. The buffers outlive the device's handle. */
  iron_buffer *from = NULL, *to = NULL;
  CHECK(iron_buffer_create(device, sizeof x, &from) == IRON_OK && iron_buffer_create(device, sizeof y, &to) == IRON_OK);
  CHECK((uintptr_t)iron_buffer_data(from) % 256 == 0 && iron_buffer_bytes(from) == sizeof x);
  CHECK(iron_buffer_upload(from, 0, x, sizeof x) == IRON_OK && iron_buffer_fill(to, 0xff) == IRON_OK);
  const iron_argument held[] = {iron_buffer_argument("x", IRON_F32, from), iron_buffer_argument("y", IRON_F32, to),
                                iron_integer("n", columns)};
  CHECK(iron_launch(softmax, held, 3, NULL) == IRON_OK);
  memset(y, 0, sizeof y);
  CHECK(iron_buffer_download(to, 0, y, sizeof y) == IRON_OK);
  CHECK(close_to(y, want));
  void* tensor = NULL;
  const int64_t shape[] = {rows, columns}, larger[] = {rows + 1, columns};
  REFUSED(iron_buffer_dlpack(to, IRON_F32, larger, 2, 0, &tensor), IRON_INVALID_ARGUMENT, "bytes");
  REFUSED(iron_buffer_dlpack(to, IRON_NO_DTYPE, shape, 2, 0, &tensor), IRON_WRONG_TYPE, "element type");
  CHECK(tensor == NULL && iron_buffer_dlpack(to, IRON_F32, shape, 2, 0, &tensor) == IRON_OK);
  struct managed { /* the beginning and the end of DLPack's DLManagedTensor */
    void* data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
    void* context;
    void (*deleter)(struct managed*);
  }* m = tensor;
  CHECK(m->data == iron_buffer_data(to) && m->device_type == 1 && m->ndim == 2 && m->code == 2 && m->bits == 32 &&
        m->lanes == 1);
  CHECK(m->shape[0] == rows && m->shape[1] == columns && m->strides[0] == columns && m->strides[1] == 1);
  m->deleter(m);
  REFUSED(iron_buffer_download(to, 4, y, sizeof y), IRON_INVALID_ARGUMENT, "leaves a buffer");
  REFUSED(iron_buffer_upload(NULL, 0, x, 4), IRON_INVALID_ARGUMENT, "buffer");
  REFUSED(iron_buffer_create(device, UINT64_MAX / 2, &from), IRON_OUT_OF_MEMORY, "allocate");
  CHECK(from == NULL);

  /* Arguments that are wrong, each in its own way. */
  iron_argument bad[3];
#define WITH(index, ...)          \
  memcpy(bad, good, sizeof good); \
  bad[index] = __VA_ARGS__;
  WITH(2, iron_memory("x", IRON_F64, x, sizeof x))
  REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_WRONG_TYPE, "f32, not f64");
  WITH(2, iron_memory("x", IRON_F32, x, sizeof x - 4)) REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_REFUSED, "x");
  WITH(2, iron_memory("x", IRON_F32, y, sizeof y)) REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_REFUSED, "share");
  WITH(2, iron_memory("x", IRON_F32, (char*)x + 1, sizeof x - 4))
  REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_REFUSED, "x");
  WITH(2, iron_memory("x", IRON_F32, NULL, sizeof x))
  REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_INVALID_ARGUMENT, "NULL");
  WITH(2, iron_memory("z", IRON_F32, x, sizeof x))
  REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_INVALID_ARGUMENT, "no parameter 'z'");
  WITH(2, iron_memory("y", IRON_F32, x, sizeof x))
  REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_INVALID_ARGUMENT, "twice");
  const uint64_t sizes[] = {columns, rows};
  WITH(2, iron_tensor("x", IRON_F32, x, sizeof x, 2, sizes, NULL))
  REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_INVALID_ARGUMENT, "no tensor");
  WITH(2, iron_integer("x", 3)) REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_WRONG_TYPE, "buffer, not a scalar");
  WITH(0, iron_memory("n", IRON_U32, x, 4))
  REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_WRONG_TYPE, "scalar, not a buffer");
  WITH(0, iron_integer("n", -1)) REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_INVALID_ARGUMENT, "-1");
  WITH(0, iron_integer("n", INT64_C(1) << 32))
  REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_INVALID_ARGUMENT, "4294967296");
  WITH(0, iron_real("n", 70.0)) REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_WRONG_TYPE, "whole number");
  WITH(0, iron_integer(NULL, 70)) REFUSED(iron_launch(softmax, bad, 3, NULL), IRON_INVALID_ARGUMENT, "name");
  REFUSED(iron_launch(softmax, good, 2, NULL), IRON_INVALID_ARGUMENT, "lacks arguments: x");
  REFUSED(iron_launch(softmax, NULL, 3, NULL), IRON_INVALID_ARGUMENT, "arguments");
  REFUSED(iron_launch(NULL, good, 3, NULL), IRON_INVALID_ARGUMENT, "kernel");
  iron_buffer_destroy(to);
  iron_kernel_destroy(softmax);
}

struct step {
  iron_kernel* kernel;
  const iron_argument* arguments;
  iron_launch_options options;
  iron_status result;
};
static iron_status one_launch(void* context) {
  const struct step* s = context;
  const iron_status status = iron_launch(s->kernel, s->arguments, 3, &s->options);
  return status == IRON_OK ? s->result : status;
}

static void streams(iron_device* device) {
  static float x[elements], want[elements], y[elements];
  fill(x, want);
  iron_kernel* softmax = NULL;
  iron_stream *stream = NULL, *other = NULL;
  CHECK(iron_kernel_create(device, "softmax", IRON_F32, NULL, &softmax) == IRON_OK);
  CHECK(iron_stream_create(device, &stream) == IRON_OK && iron_stream_create(device, &other) == IRON_OK);
  const iron_argument args[] = {iron_memory("x", IRON_F32, x, sizeof x), iron_memory("y", IRON_F32, y, sizeof y),
                                iron_integer("n", columns)};
  struct step step = {softmax, args, {.size = sizeof(iron_launch_options), .stream = stream}, IRON_OK};

  memset(y, 0xff, sizeof y);
  iron_event *before = NULL, *after = NULL;
  CHECK(iron_event_record(stream, &before) == IRON_OK);
  CHECK(iron_launch(softmax, args, 3, &step.options) == IRON_OK);
  CHECK(iron_event_record(stream, &after) == IRON_OK && iron_stream_wait(other, after) == IRON_OK);
  CHECK(iron_stream_synchronize(other) == IRON_OK && iron_event_synchronize(after) == IRON_OK);
  CHECK(close_to(y, want));
  double seconds = -1;
  int idle = -1;
  CHECK(iron_event_seconds(before, after, &seconds) == IRON_OK && seconds >= 0);
  CHECK(iron_stream_idle(stream, &idle) == IRON_OK && idle == 1);
  iron_event_destroy(before), iron_event_destroy(after);

  iron_graph* graph = NULL;
  memset(y, 0xff, sizeof y);
  CHECK(iron_stream_capture(stream, one_launch, &step, &graph) == IRON_OK && iron_graph_size(graph) == 1);
  CHECK(iron_stream_synchronize(stream) == IRON_OK && y[0] != y[0]); /* kept, not run */
  CHECK(iron_graph_replay(graph, other) == IRON_OK && iron_stream_synchronize(other) == IRON_OK);
  CHECK(close_to(y, want));
  iron_graph_destroy(graph);

  step.result = IRON_DEVICE_FAILED; /* a body that gives up */
  CHECK(iron_stream_capture(stream, one_launch, &step, &graph) == IRON_DEVICE_FAILED && graph == NULL);
  step.result = IRON_OK; /* and the stream goes on */
  CHECK(iron_stream_capture(stream, one_launch, &step, &graph) == IRON_OK);
  iron_graph_destroy(graph);
  REFUSED(iron_stream_capture(stream, NULL, NULL, &graph), IRON_INVALID_ARGUMENT, "body");
  REFUSED(iron_event_record(NULL, &before), IRON_INVALID_ARGUMENT, "stream");
  REFUSED(iron_stream_wait(stream, NULL), IRON_INVALID_ARGUMENT, "event");
  iron_device_info info = {.size = sizeof info};
  CHECK(iron_device_describe(device, &info) == IRON_OK);
  iron_stream* wrapped = NULL;
  if (info.host_memory)
    REFUSED(iron_stream_wrap(device, NULL, &wrapped), IRON_UNSUPPORTED, "streams of other libraries");
  iron_stream_destroy(stream), iron_stream_destroy(other), iron_kernel_destroy(softmax);
}

static void specialisations(iron_device* device) {
  iron_kernel* k = NULL;
  REFUSED(iron_kernel_create(device, "softmaxx", IRON_F32, NULL, &k), IRON_NOT_FOUND, "softmaxx");
  REFUSED(iron_kernel_create(device, "soft", IRON_F32, NULL, &k), IRON_NOT_FOUND, "iron_softmax");
  REFUSED(iron_kernel_create(device, "softmax", IRON_U8, NULL, &k), IRON_WRONG_TYPE, "f32, f16, bf16");
  REFUSED(iron_kernel_create(device, "softmax", IRON_F32, "n=3", &k), IRON_NOT_FOUND, "no specialisation field 'n'");
  REFUSED(iron_kernel_create(device, "moe_router_topk", IRON_F32, "norm_topk=maybe", &k), IRON_INVALID_ARGUMENT,
          "maybe");
  REFUSED(iron_kernel_create(device, "moe_router_topk", IRON_F32, "norm_topk", &k), IRON_INVALID_ARGUMENT,
          "not a specialisation");
  CHECK(k == NULL);
  CHECK(iron_kernel_create(device, "iron_moe_router_topk", IRON_F32, "norm_topk=false", &k) == IRON_OK);
  CHECK(strcmp(iron_kernel_specialisation(k), "norm_topk=false") == 0);
  iron_kernel_destroy(k);

  /* An optional buffer is a parameter where the specialisation has it. */
  iron_kernel_info info = {.size = sizeof info};
  CHECK(iron_kernel_create(device, "rope_llama", IRON_F32, NULL, &k) == IRON_OK);
  CHECK(iron_kernel_describe(k, &info) == IRON_OK);
  const uint32_t without = info.parameters;
  static uint32_t position[1];
  const iron_argument a = iron_memory("positions", IRON_U32, position, sizeof position);
  REFUSED(iron_launch(k, &a, 1, NULL), IRON_INVALID_ARGUMENT, "positions=present");
  iron_kernel_destroy(k);
  CHECK(iron_kernel_create(device, "rope_llama", IRON_F32, "positions=present", &k) == IRON_OK);
  CHECK(iron_kernel_describe(k, &info) == IRON_OK && info.parameters == without + 1);
  iron_kernel_destroy(k);
}

/* Scalars of 0 and empty buffers reach every kernel's grid: it must not divide by them. */
static void zeros(iron_device* device) {
  for (size_t i = 0; i < iron_library_count(); ++i) {
    iron_kernel_info info = {.size = sizeof info};
    iron_kernel* k = NULL;
    CHECK(iron_library_entry(i, &info) == IRON_OK);
    CHECK(iron_kernel_create(device, info.name, info.dtype, NULL, &k) == IRON_OK);
    iron_argument args[64];
    size_t count = 0;
    for (; count < info.parameters && count < 64; ++count) {
      iron_parameter p = {.size = sizeof p};
      CHECK(iron_kernel_parameter(k, count, &p) == IRON_OK);
      static const uint64_t empty[2] = {0, 0};
      args[count] = p.tensor                ? iron_tensor(p.name, p.dtype, NULL, 0, 2, empty, NULL)
                    : p.kind == IRON_SCALAR ? iron_integer(p.name, 0)
                                            : iron_memory(p.name, p.dtype, NULL, 0);
    }
    iron_launch_options grid = {.size = sizeof grid};
    const iron_status status = iron_kernel_grid(k, args, count, &grid);
    CHECK(status == IRON_OK ? info.has_grid == 1 : status == IRON_REFUSED && info.has_grid == 0);
    iron_kernel_destroy(k);
  }
}

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "interpreter";
  iron_device *device = NULL, *again = NULL;
  versions_and_names();
  listing();
  CHECK(iron_device_open(name, &device) == IRON_OK && iron_device_open(name, &again) == IRON_OK);
  devices(device, name);
  launches(device);
  streams(device);
  specialisations(device);
  zeros(device);
  iron_device_close(again);
  iron_device_close(device);
  iron_device_close(NULL), iron_buffer_destroy(NULL), iron_kernel_destroy(NULL);
  iron_stream_destroy(NULL), iron_event_destroy(NULL), iron_graph_destroy(NULL);
  CHECK(iron_graph_size(NULL) == 0);
  CHECK(iron_buffer_data(NULL) == NULL && iron_buffer_bytes(NULL) == 0 && iron_kernel_specialisation(NULL) == NULL);
  CHECK(iron_kernel_member(NULL) == NULL);
  printf("%d checks on %s, %d failed\n", checks, name, failures);
  const char* file = getenv("IRON_RESULT_FILE");
  FILE* out = file ? fopen(file, "w") : NULL;
  if (out) fprintf(out, "{\"passed\": %d, \"failed\": %d, \"skipped\": 0}\n", checks - failures, failures), fclose(out);
  return failures ? 1 : 0;
}
