// Builds GGUF files in memory, well-formed or with one field made wrong.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "generate/gguf.h"

namespace iron::model {

/// Appends fields as they lie in a file.
class Bytes {
 public:
  template <class T>
  Bytes& scalar(T value) {
    text_.append(reinterpret_cast<const char*>(&value), sizeof value);
    return *this;
  }
  Bytes& raw(std::string_view text) {
    text_ += text;
    return *this;
  }
  Bytes& string(std::string_view text) { return scalar(u64{text.size()}).raw(text); }
  const std::string& text() const { return text_; }
  std::size_t size() const { return text_.size(); }

 private:
  std::string text_;
};

/// A whole file. Every part may be replaced before text() puts it together.
struct GgufWriter {
  struct TensorInfo {
    std::string name;
    std::vector<u64> dims;
    u32 type = 0;
    u64 offset = 0;
  };

  std::string magic = "GGUF";
  u32 version = 3;
  u64 alignment = 32;
  std::vector<std::pair<std::string, std::string>> keys;  ///< name, and type with value as in the file
  std::vector<TensorInfo> tensors;
  std::string data;
  u64 claimed_keys = ~u64{0}, claimed_tensors = ~u64{0};  ///< all ones: as many as there are

  GgufWriter& key(const std::string& name, const Bytes& value) {
    keys.emplace_back(name, value.text());
    return *this;
  }
  GgufWriter& number(const std::string& name, u32 value) { return key(name, Bytes().scalar(u32{4}).scalar(value)); }
  GgufWriter& real(const std::string& name, f32 value) { return key(name, Bytes().scalar(u32{6}).scalar(value)); }
  GgufWriter& string(const std::string& name, std::string_view value) {
    return key(name, Bytes().scalar(u32{8}).string(value));
  }
  GgufWriter& strings(const std::string& name, const std::vector<std::string>& values) {
    Bytes b;
    b.scalar(u32{9}).scalar(u32{8}).scalar(u64{values.size()});
    for (const auto& v : values) b.string(v);
    return key(name, b);
  }
  GgufWriter& integers(const std::string& name, const std::vector<i32>& values) {
    Bytes b;
    b.scalar(u32{9}).scalar(u32{5}).scalar(u64{values.size()});
    for (i32 v : values) b.scalar(v);
    return key(name, b);
  }
  /// Adds a tensor behind the others, aligned, with these bytes.
  GgufWriter& tensor(const std::string& name, std::vector<u64> dims, u32 type, std::string_view bytes) {
    data.resize((data.size() + alignment - 1) / alignment * alignment);
    tensors.push_back({name, std::move(dims), type, data.size()});
    data += bytes;
    return *this;
  }

  std::string text() const {
    Bytes b;
    b.raw(magic).scalar(version);
    b.scalar(claimed_tensors == ~u64{0} ? u64{tensors.size()} : claimed_tensors);
    b.scalar(claimed_keys == ~u64{0} ? u64{keys.size()} : claimed_keys);
    for (const auto& [name, value] : keys) b.string(name).raw(value);
    for (const auto& t : tensors) {
      b.string(t.name).scalar(static_cast<u32>(t.dims.size()));
      for (u64 d : t.dims) b.scalar(d);
      b.scalar(t.type).scalar(t.offset);
    }
    std::string out = b.text();
    out.resize((out.size() + alignment - 1) / alignment * alignment);
    return out + data;
  }
};

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace iron::model
