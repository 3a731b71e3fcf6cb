// Reader of GGUF model files, versions 2 and 3: metadata and tensors as views into the mapped file.
//
// Any byte string is safe to open: every count and length is checked against what is left of the file before it is used
// or allocated, the time is near-linear, nothing recurses, and what is wrong becomes one iron::Error that names file,
// byte offset, field, what is there and what must be:
//
//   GGUF01 the file cannot be opened or read    GGUF09 alignment is no power of two in 8..65536
//   GGUF02 it ends inside a field               GGUF10 tensor shape: rank, zero, overflow, row not whole blocks
//   GGUF03 no GGUF magic                        GGUF11 unknown tensor type
//   GGUF04 version unknown or byte-swapped      GGUF12 tensor data: unaligned, past the end, overlapping
//   GGUF05 a count the file cannot hold         GGUF13 bytes after the last tensor
//   GGUF06 a name that is empty, too long, or   GGUF14 key missing, of another type, or out of range
//          not printable UTF-8                  GGUF15 tensor missing, or its shape is not what the model needs
//   GGUF07 unknown value type, nested array     GGUF16 no memory
//   GGUF08 key or tensor name twice
#pragma once

#include <array>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "quant/gguf_blocks.h"

namespace iron::model {

/// A tensor of the file. `dims` is in GGUF's order: dims[0] is the length of a row, whose elements are neighbours.
struct Tensor {
  std::string_view name;
  quant::GgufType type = quant::GgufType::f32;
  u32 rank = 0;
  std::array<u64, 4> dims{1, 1, 1, 1};
  std::span<const std::byte> bytes;  ///< whole blocks, row-major; aligned as the file says
  u64 cols() const { return dims[0]; }
  u64 rows() const { return dims[1] * dims[2] * dims[3]; }
  /// "[576, 1536] Q4_1"
  std::string shape() const;
};

/// The types of metadata values, with their numbers in a file.
enum class ValueType : u32 { u8, i8, u16, i16, u32, i32, f32, boolean, string, array, u64, i64, f64 };
inline constexpr u32 value_type_count = 13;
std::string_view value_type_name(ValueType type);

/// A metadata value: a view of its bytes, or of its strings.
struct Value {
  ValueType type = ValueType::u8;  ///< of the value, or of the elements of an array
  bool is_array = false;
  u64 count = 1;
  std::span<const std::byte> bytes;  ///< scalars, not aligned
  std::vector<std::string_view> strings;
};

/// An open file kept in memory by the operating system.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path);
  ~MappedFile();
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&&) = delete;
  std::span<const std::byte> bytes() const { return bytes_; }

 private:
  std::span<const std::byte> bytes_;
};

class Gguf {
 public:
  struct Options {
    bool allow_trailing = false;  ///< accept bytes after the last tensor
  };

  /// Maps and reads a file. Tensors and strings live as long as the result.
  static Gguf open(const std::string& path, Options options);
  static Gguf open(const std::string& path) { return open(path, Options{}); }
  /// Reads bytes that the caller keeps alive; `name` stands for them in errors.
  static Gguf parse(std::span<const std::byte> file, std::string name, Options options);
  static Gguf parse(std::span<const std::byte> file, std::string name) {
    return parse(file, std::move(name), Options{});
  }

  const std::string& name() const { return name_; }
  u32 version() const { return version_; }
  u64 alignment() const { return alignment_; }

  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor* find_tensor(std::string_view name) const;
  const Tensor& tensor(std::string_view name) const;  ///< GGUF15 when missing
  /// A tensor that must have this shape: GGUF15 with both shapes otherwise.
  const Tensor& tensor(std::string_view name, std::initializer_list<u64> dims) const;

  const std::map<std::string_view, Value>& metadata() const { return metadata_; }
  const Value* find(std::string_view key) const;
  // Typed access: GGUF14 when the key is missing or has another type. Integers may be stored in any width.
  std::string_view string(std::string_view key) const;
  u64 number(std::string_view key) const;
  u64 number(std::string_view key, u64 low, u64 high) const;  ///< GGUF14 also outside low..high
  f64 real(std::string_view key) const;
  bool flag(std::string_view key) const;
  std::span<const std::string_view> strings(std::string_view key) const;
  std::vector<i64> numbers(std::string_view key) const;

  /// An error about this file's contents.
  [[noreturn]] void fail(std::string_view code, const std::string& what, std::string fix = {}) const;

 private:
  friend class GgufReader;
  const Value& get(std::string_view key) const;

  std::optional<MappedFile> file_;
  std::string name_;
  u32 version_ = 0;
  u64 alignment_ = 32;
  std::map<std::string_view, Value> metadata_;
  std::vector<Tensor> tensors_;
  std::map<std::string_view, std::size_t> tensor_index_;
};

/// A name from a file, safe to print: control characters and broken UTF-8 escaped, long ones cut.
std::string printable(std::string_view text);

}  // namespace iron::model
