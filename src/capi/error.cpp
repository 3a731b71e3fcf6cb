// Errors of the C interface: codes, their names, the last text of each thread.
#include <array>
#include <new>

#include "capi/handles.h"

namespace iron::capi {

namespace {

struct Last {
  std::string text, code;
};
thread_local Last last;

/// Errors of the layers below, by the beginning of their code; the first row that fits decides.
struct Row {
  std::string_view code;
  iron_status status;
};
constexpr std::array rows{
    Row{"DEV01", IRON_NOT_FOUND},       Row{"DEV02", IRON_OUT_OF_MEMORY},  Row{"RT01", IRON_OUT_OF_MEMORY},
    Row{"RT14", IRON_UNSUPPORTED},      Row{"RT", IRON_INVALID_ARGUMENT},  Row{"CUDA1", IRON_UNAVAILABLE},
    Row{"CUDA2", IRON_DEVICE_FAILED},   Row{"CUDA0", IRON_COMPILE_FAILED}, Row{"SPEC01", IRON_NOT_FOUND},
    Row{"SPEC", IRON_INVALID_ARGUMENT}, Row{"D20", IRON_UNSUPPORTED},      Row{"TARGET", IRON_UNSUPPORTED},
    Row{"D02", IRON_REFUSED},           Row{"D03", IRON_REFUSED},          Row{"D25", IRON_REFUSED},
    Row{"D26", IRON_REFUSED},           Row{"D27", IRON_REFUSED},          Row{"LAUNCH", IRON_REFUSED},
    Row{"EXEC", IRON_DEVICE_FAILED},    Row{"D", IRON_COMPILE_FAILED},     Row{"IR", IRON_COMPILE_FAILED},
    Row{"CPU", IRON_COMPILE_FAILED},    Row{"EMIT", IRON_COMPILE_FAILED},  Row{"MATH", IRON_COMPILE_FAILED},
    Row{"OPT", IRON_COMPILE_FAILED},
};
iron_status status_of(std::string_view code) {
  for (const auto& row : rows)
    if (code.substr(0, row.code.size()) == row.code) return row.status;
  return IRON_INTERNAL;
}

iron_status keep(iron_status status, const char* text, std::string_view code) {
  last.text = text;
  while (!last.text.empty() && last.text.back() == '\n') last.text.pop_back();
  last.code = code;
  return status;
}

}  // namespace

iron_status caught() noexcept {
  try {
    try {
      throw;
    } catch (const Fault& e) {
      return keep(e.status(), e.what(), e.code());
    } catch (const Error& e) {
      return keep(status_of(e.code()), e.what(), e.code());
    } catch (const std::bad_alloc&) {
      return keep(IRON_OUT_OF_MEMORY, "out of memory on the host", "C03");
    } catch (const std::exception& e) {
      return keep(IRON_INTERNAL, e.what(), "C04");
    }
  } catch (...) {  // not even the text could be kept
    return IRON_INTERNAL;
  }
}

void need(const void* pointer, const char* what) {
  if (!pointer) throw Fault(IRON_INVALID_ARGUMENT, "C01", std::string(what) + " is NULL");
}

}  // namespace iron::capi

using namespace iron;

uint32_t iron_abi_version(void) { return IRON_C_ABI; }
const char* iron_version(void) { return IRON_VERSION; }

const char* iron_status_name(iron_status status) {
  switch (status) {
#define NAME(s) \
  case s:       \
    return #s
    NAME(IRON_OK);
    NAME(IRON_INVALID_ARGUMENT);
    NAME(IRON_NOT_FOUND);
    NAME(IRON_WRONG_TYPE);
    NAME(IRON_REFUSED);
    NAME(IRON_UNAVAILABLE);
    NAME(IRON_OUT_OF_MEMORY);
    NAME(IRON_COMPILE_FAILED);
    NAME(IRON_UNSUPPORTED);
    NAME(IRON_DEVICE_FAILED);
    NAME(IRON_INTERNAL);
#undef NAME
  }
  return "unknown status";
}

const char* iron_last_error(void) { return capi::last.text.c_str(); }
const char* iron_last_error_code(void) { return capi::last.code.c_str(); }

// The C enumerators are the tags of the kernel language.
static_assert(IRON_NO_DTYPE == static_cast<int>(DType::none) && IRON_BOOL == static_cast<int>(DType::boolean));
static_assert(IRON_I8 == static_cast<int>(DType::i8) && IRON_U8 == static_cast<int>(DType::u8));
static_assert(IRON_I16 == static_cast<int>(DType::i16) && IRON_U16 == static_cast<int>(DType::u16));
static_assert(IRON_I32 == static_cast<int>(DType::i32) && IRON_U32 == static_cast<int>(DType::u32));
static_assert(IRON_I64 == static_cast<int>(DType::i64) && IRON_U64 == static_cast<int>(DType::u64));
static_assert(IRON_F16 == static_cast<int>(DType::f16) && IRON_BF16 == static_cast<int>(DType::bf16));
static_assert(IRON_F32 == static_cast<int>(DType::f32) && IRON_F64 == static_cast<int>(DType::f64));

namespace {
bool known(iron_dtype dtype) { return dtype > IRON_NO_DTYPE && dtype <= IRON_F64; }
}  // namespace

const char* iron_dtype_name(iron_dtype dtype) {
  return known(dtype) ? dtype_name(static_cast<DType>(dtype)).data() : "none";  // a literal: it ends in zero
}
iron_dtype iron_dtype_from_name(const char* name) {
  const auto type = name ? dtype_from_name(name) : DType::none;
  return type == DType::index ? IRON_NO_DTYPE : static_cast<iron_dtype>(type);
}
size_t iron_dtype_size(iron_dtype dtype) { return known(dtype) ? dtype_size(static_cast<DType>(dtype)) : 0; }
