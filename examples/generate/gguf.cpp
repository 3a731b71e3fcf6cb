// Parsing of GGUF files over a span of bytes, and typed access to what was found.
#include "generate/gguf.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <utility>

#include "generate/unicode.h"
#include "iron/error.h"

namespace iron::model {

namespace {
constexpr std::string_view download_again = "fetch the file again; it was cut, damaged, or written by a faulty tool";
constexpr u64 longest_key = 65535, longest_tensor_name = 64;

// Bytes of one value; 0 for strings and arrays, which have no fixed size.
constexpr u64 scalar_size(ValueType type) {
  switch (type) {
    case ValueType::u8:
    case ValueType::i8:
    case ValueType::boolean:
      return 1;
    case ValueType::u16:
    case ValueType::i16:
      return 2;
    case ValueType::u32:
    case ValueType::i32:
    case ValueType::f32:
      return 4;
    case ValueType::u64:
    case ValueType::i64:
    case ValueType::f64:
      return 8;
    case ValueType::string:
    case ValueType::array:
      break;
  }
  return 0;
}

// The product, or nothing when it passes 64 bits.
std::optional<u64> product(u64 a, u64 b) {
  u64 out = 0;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

template <class T>
T load(const std::byte* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

// An integer of any width, or nothing when the type is none.
std::optional<i64> load_integer(ValueType type, const std::byte* at) {
  switch (type) {
    case ValueType::u8:
      return load<u8>(at);
    case ValueType::i8:
      return load<i8>(at);
    case ValueType::u16:
      return load<u16>(at);
    case ValueType::i16:
      return load<i16>(at);
    case ValueType::u32:
      return load<u32>(at);
    case ValueType::i32:
      return load<i32>(at);
    case ValueType::i64:
      return load<i64>(at);
    case ValueType::u64:
      if (const u64 v = load<u64>(at); v <= static_cast<u64>(INT64_MAX)) return static_cast<i64>(v);
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

std::string type_text(const Value& v) {
  return v.is_array ? fmt::format("array of {}", value_type_name(v.type)) : std::string(value_type_name(v.type));
}
}  // namespace

std::string printable(std::string_view text) {
  constexpr std::size_t longest = 80;
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    if (out.size() >= longest) return out + "...";
    const CodePoint c = decode_utf8(text, at);
    if (c.status != Utf8::valid || c.value < 0x20 || (c.value >= 0x7f && c.value < 0xa0))
      for (std::size_t i = 0; i < c.length; ++i) out += fmt::format("\\x{:02x}", static_cast<u8>(text[at + i]));
    else
      out += text.substr(at, c.length);
    at += c.length;
  }
  return out;
}

std::string_view value_type_name(ValueType type) {
  constexpr std::array<std::string_view, value_type_count> names{"u8",   "i8",     "u16",   "i16", "u32", "i32", "f32",
                                                                 "bool", "string", "array", "u64", "i64", "f64"};
  return names[static_cast<std::size_t>(type)];
}

std::string Tensor::shape() const {
  return fmt::format("[{}] {}", fmt::join(dims.begin(), dims.begin() + rank, ", "), quant::gguf_format(type).name);
}

MappedFile::MappedFile(const std::string& path) {
  const auto fail = [&](const char* what, int error) {
    if (error == ENOMEM)
      throw Error("GGUF16", fmt::format("{}: there is no memory to map the file", path),
                  "free memory or address space, or use a smaller model");
    throw Error("GGUF01", fmt::format("{}: {}: {}", path, what, std::generic_category().message(error)),
                "pass the path of a readable GGUF file");
  };
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) fail("cannot open the file", errno);
  struct stat info{};
  void* at = MAP_FAILED;
  int error = 0;
  const char* what = "cannot read the file";
  if (::fstat(file, &info) != 0)
    error = errno;
  else if (!S_ISREG(info.st_mode))
    error = S_ISDIR(info.st_mode) ? EISDIR : EINVAL;
  else if (info.st_size > 0) {
    at = ::mmap(nullptr, static_cast<std::size_t>(info.st_size), PROT_READ, MAP_PRIVATE, file, 0);
    if (at == MAP_FAILED) error = errno, what = "cannot map the file";
  }
  ::close(file);
  if (error != 0) fail(what, error);
  if (info.st_size > 0) bytes_ = {static_cast<const std::byte*>(at), static_cast<std::size_t>(info.st_size)};
}

MappedFile::MappedFile(MappedFile&& other) noexcept : bytes_(std::exchange(other.bytes_, {})) {}

MappedFile::~MappedFile() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

// One pass over the file, front to back.
class GgufReader {
 public:
  GgufReader(Gguf& out, std::span<const std::byte> file) : out_(out), file_(file) {}

  void read(const Gguf::Options& options) {
    header();
    for (u64 i = 0; i < keys_; ++i) key(i);
    alignment();
    for (u64 i = 0; i < tensors_; ++i) tensor_info(i);
    place_tensors(options);
  }

 private:
  [[noreturn]] void fail(std::string_view code, u64 at, const std::string& what,
                         std::string_view fix = download_again) {
    throw Error(code, fmt::format("{}: byte {}: {}", out_.name_, at, what), std::string(fix));
  }

  std::span<const std::byte> take(u64 count, const std::string& what) {
    if (count > file_.size() - at_)
      fail("GGUF02", at_,
           fmt::format("the file ends inside {}: {} bytes are needed, {} are left", what, count, file_.size() - at_));
    const auto bytes = file_.subspan(at_, count);
    at_ += count;
    return bytes;
  }

  template <class T>
  T scalar(const std::string& what) {
    return load<T>(take(sizeof(T), what).data());
  }

  std::string_view string(const std::string& what) {
    const u64 start = at_, length = scalar<u64>("the length of " + what);
    if (length > file_.size() - at_)
      fail("GGUF02", start, fmt::format("{} is {} bytes long, but only {} are left", what, length, file_.size() - at_));
    const auto bytes = take(length, what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // A name that people and errors use: not empty, not too long, printable.
  std::string_view name(const std::string& what, u64 longest) {
    const u64 start = at_;
    const std::string_view text = string(what);
    if (text.empty()) fail("GGUF06", start, fmt::format("{} is empty", what));
    if (text.size() > longest)
      fail("GGUF06", start, fmt::format("{} is {} bytes long; at most {} are allowed", what, text.size(), longest));
    for (std::size_t i = 0; i < text.size();) {
      const CodePoint c = decode_utf8(text, i);
      if (c.status != Utf8::valid || c.value < 0x20 || (c.value >= 0x7f && c.value < 0xa0))
        fail("GGUF06", start, fmt::format("{} '{}' is not printable UTF-8", what, printable(text)));
      i += c.length;
    }
    return text;
  }

  void check_count(u64 count, u64 least_bytes, u64 at, const std::string& what) {
    if (count > (file_.size() - at_) / least_bytes)
      fail("GGUF05", at,
           fmt::format("{} is {}, but the {} bytes that are left hold at most {}", what, count, file_.size() - at_,
                       (file_.size() - at_) / least_bytes));
  }

  void header() {
    if (file_.size() < 4) fail("GGUF02", 0, fmt::format("the file has {} bytes, less than the magic", file_.size()));
    const auto magic = take(4, "the magic");
    if (std::memcmp(magic.data(), "GGUF", 4) != 0)
      fail("GGUF03", 0,
           fmt::format("the file does not begin with 'GGUF' but with '{}'",
                       printable({reinterpret_cast<const char*>(magic.data()), 4})),
           "pass a GGUF file; other formats have to be converted first");
    out_.version_ = scalar<u32>("the version");
    if (out_.version_ != 2 && out_.version_ != 3) {
      const u32 swapped = __builtin_bswap32(out_.version_);
      if (swapped >= 1 && swapped <= 3)
        fail("GGUF04", 4, fmt::format("the file is big-endian (version {})", swapped), "convert it to little-endian");
      fail("GGUF04", 4, fmt::format("version {} is not supported; 2 and 3 are", out_.version_),
           "convert the file with a current tool");
    }
    tensors_ = scalar<u64>("the number of tensors");
    keys_ = scalar<u64>("the number of keys");
    // The least key: length, one letter, type, one byte. The least tensor: length, one letter, rank, one extent, type,
    // offset.
    check_count(keys_, 8 + 1 + 4 + 1, 16, "the number of keys");
    check_count(tensors_, 8 + 1 + 4 + 8 + 4 + 8, 8, "the number of tensors");
  }

  ValueType value_type(const std::string& what) {
    const u64 at = at_;
    const u32 number = scalar<u32>("the type of " + what);
    if (number >= value_type_count) fail("GGUF07", at, fmt::format("{} has the unknown value type {}", what, number));
    return static_cast<ValueType>(number);
  }

  void key(u64 index) {
    const u64 start = at_;
    const std::string_view text = name(fmt::format("the name of key {}", index), longest_key);
    const std::string what = fmt::format("key '{}'", printable(text));
    Value v;
    v.type = value_type(what);
    if (v.type == ValueType::array) {
      v.is_array = true;
      const u64 at = at_;
      v.type = value_type("the elements of " + what);
      if (v.type == ValueType::array) fail("GGUF07", at, what + " is an array of arrays");
      const u64 count_at = at_;
      v.count = scalar<u64>("the length of " + what);
      check_count(v.count, v.type == ValueType::string ? 8 : scalar_size(v.type), count_at, "the length of " + what);
    }
    const u64 value_at = at_;
    if (v.type == ValueType::string) {
      v.strings.reserve(v.count);
      for (u64 i = 0; i < v.count; ++i) v.strings.push_back(string(what));
    } else {
      v.bytes = take(v.count * scalar_size(v.type), what);
    }
    if (v.type == ValueType::boolean)
      for (u64 i = 0; i < v.count; ++i)
        if (load<u8>(&v.bytes[i]) > 1)
          fail("GGUF07", value_at + i, fmt::format("{} is a bool of value {}", what, load<u8>(&v.bytes[i])));
    if (!out_.metadata_.emplace(text, std::move(v)).second) fail("GGUF08", start, what + " occurs twice");
  }

  void alignment() {
    if (!out_.find("general.alignment")) return;
    const u64 value = out_.number("general.alignment");
    if (value < 8 || value > 65536 || (value & (value - 1)) != 0)
      fail("GGUF09", at_, fmt::format("general.alignment is {}; it must be a power of two from 8 to 65536", value));
    out_.alignment_ = value;
  }

  void tensor_info(u64 index) {
    const u64 start = at_;
    Tensor t;
    t.name = name(fmt::format("the name of tensor {}", index), longest_tensor_name);
    const std::string what = fmt::format("tensor '{}'", printable(t.name));
    const u64 rank_at = at_;
    t.rank = scalar<u32>("the rank of " + what);
    if (t.rank < 1 || t.rank > 4)
      fail("GGUF10", rank_at, fmt::format("{} has {} dimensions; 1 to 4 are possible", what, t.rank));
    std::optional<u64> elements = 1;
    for (u32 d = 0; d < t.rank; ++d) {
      t.dims[d] = scalar<u64>(fmt::format("dimension {} of {}", d, what));
      if (t.dims[d] == 0) fail("GGUF10", at_ - 8, fmt::format("dimension {} of {} is zero", d, what));
      elements = product(*elements, t.dims[d]);
      if (!elements) fail("GGUF10", at_ - 8, fmt::format("the elements of {} pass 64 bits", what));
    }
    const u64 type_at = at_;
    const u32 number = scalar<u32>("the type of " + what);
    const quant::GgufFormat* format = quant::find_gguf_format(number);
    if (!format)
      fail("GGUF11", type_at, fmt::format("{} has type {}, which Iron does not decode", what, number),
           "use a model in F32, F16, BF16, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0, Q4_K or Q6_K");
    t.type = format->type;
    if (t.dims[0] % format->elements != 0)
      fail("GGUF10", type_at,
           fmt::format("a row of {} has {} elements, which is no whole number of {} blocks of {}", what, t.dims[0],
                       format->name, format->elements));
    const std::optional<u64> bytes = product(*elements / format->elements, format->bytes);
    if (!bytes) fail("GGUF10", type_at, fmt::format("the bytes of {} pass 64 bits", what));
    const u64 offset_at = at_, offset = scalar<u64>("the offset of " + what);
    if (offset % out_.alignment_ != 0)
      fail("GGUF12", offset_at,
           fmt::format("the offset of {} is {}, which is no multiple of the alignment {}", what, offset,
                       out_.alignment_));
    if (!out_.tensor_index_.emplace(t.name, out_.tensors_.size()).second) fail("GGUF08", start, what + " occurs twice");
    out_.tensors_.push_back(t);
    places_.push_back({offset, *bytes, offset_at, out_.tensors_.size() - 1});
  }

  // The data section begins aligned after the last tensor info; tensors lie in it without overlap.
  void place_tensors(const Gguf::Options& options) {
    const u64 padding = (out_.alignment_ - at_ % out_.alignment_) % out_.alignment_;
    const u64 begin = at_ + padding;
    const u64 room = begin <= file_.size() ? file_.size() - begin : 0;
    std::sort(places_.begin(), places_.end(), [](const Place& a, const Place& b) { return a.offset < b.offset; });
    u64 end = 0;
    const Place* before = nullptr;
    for (const Place& p : places_) {
      Tensor& t = out_.tensors_[p.tensor];
      if (p.offset > room || p.bytes > room - p.offset)
        fail("GGUF12", p.at,
             fmt::format("tensor '{}' {} needs {} bytes at offset {} of the data, which has {} bytes",
                         printable(t.name), t.shape(), p.bytes, p.offset, room));
      if (before && p.offset < end)
        fail("GGUF12", p.at,
             fmt::format("tensor '{}' at offset {} overlaps tensor '{}', which ends at {}", printable(t.name), p.offset,
                         printable(out_.tensors_[before->tensor].name), end));
      t.bytes = file_.subspan(begin + p.offset, p.bytes);
      end = p.offset + p.bytes;
      before = &p;
    }
    const u64 last = places_.empty() ? at_ : begin + end;
    if (!options.allow_trailing && file_.size() > last && file_.size() - last >= out_.alignment_)
      fail("GGUF13", last, fmt::format("{} bytes follow the last tensor", file_.size() - last),
           "cut them off if they are known to be harmless");
  }

  struct Place {
    u64 offset, bytes, at;
    std::size_t tensor;
  };

  Gguf& out_;
  std::span<const std::byte> file_;
  u64 at_ = 0, keys_ = 0, tensors_ = 0;
  std::vector<Place> places_;
};

Gguf Gguf::open(const std::string& path, Options options) {
  MappedFile file(path);
  Gguf out = parse(file.bytes(), path, options);
  out.file_.emplace(std::move(file));
  return out;
}

Gguf Gguf::parse(std::span<const std::byte> file, std::string name, Options options) {
  Gguf out;
  out.name_ = std::move(name);
  try {
    GgufReader(out, file).read(options);
  } catch (const std::bad_alloc&) {
    throw Error("GGUF16", fmt::format("{}: there is no memory for the table of tensors and keys", out.name_),
                "free memory, or use a smaller model");
  }
  return out;
}

void Gguf::fail(std::string_view code, const std::string& what, std::string fix) const {
  throw Error(code, fmt::format("{}: {}", name_, what), std::move(fix));
}

const Tensor* Gguf::find_tensor(std::string_view name) const {
  const auto found = tensor_index_.find(name);
  return found == tensor_index_.end() ? nullptr : &tensors_[found->second];
}

const Tensor& Gguf::tensor(std::string_view name) const {
  if (const Tensor* t = find_tensor(name)) return *t;
  fail("GGUF15", fmt::format("there is no tensor '{}'", name), "use a complete file of this architecture");
}

const Tensor& Gguf::tensor(std::string_view name, std::initializer_list<u64> dims) const {
  const Tensor& t = tensor(name);
  if (t.rank != dims.size() || !std::equal(dims.begin(), dims.end(), t.dims.begin()))
    fail("GGUF15", fmt::format("tensor '{}' is {}, the model needs [{}]", name, t.shape(), fmt::join(dims, ", ")),
         "use a file whose metadata and tensors belong together");
  return t;
}

const Value* Gguf::find(std::string_view key) const {
  const auto found = metadata_.find(key);
  return found == metadata_.end() ? nullptr : &found->second;
}

const Value& Gguf::get(std::string_view key) const {
  if (const Value* v = find(key)) return *v;
  fail("GGUF14", fmt::format("there is no key '{}'", key), "use a complete file of this architecture");
}

std::string_view Gguf::string(std::string_view key) const {
  const Value& v = get(key);
  if (v.is_array || v.type != ValueType::string)
    fail("GGUF14", fmt::format("key '{}' is {}, not a string", key, type_text(v)));
  return v.strings.front();
}

u64 Gguf::number(std::string_view key) const {
  const Value& v = get(key);
  const auto value = v.is_array || v.bytes.empty() ? std::nullopt : load_integer(v.type, v.bytes.data());
  if (!value || *value < 0)
    fail("GGUF14", fmt::format("key '{}' is {}{}, not a number from 0 on", key, type_text(v),
                               value ? fmt::format(" {}", *value) : ""));
  return static_cast<u64>(*value);
}

u64 Gguf::number(std::string_view key, u64 low, u64 high) const {
  const u64 value = number(key);
  if (value < low || value > high)
    fail("GGUF14", fmt::format("key '{}' is {}; it must lie in {}..{}", key, value, low, high),
         "use a file that was written for this architecture");
  return value;
}

f64 Gguf::real(std::string_view key) const {
  const Value& v = get(key);
  if (!v.is_array && v.type == ValueType::f32) return f64{load<f32>(v.bytes.data())};
  if (!v.is_array && v.type == ValueType::f64) return load<f64>(v.bytes.data());
  fail("GGUF14", fmt::format("key '{}' is {}, not a floating-point number", key, type_text(v)));
}

bool Gguf::flag(std::string_view key) const {
  const Value& v = get(key);
  if (v.is_array || v.type != ValueType::boolean)
    fail("GGUF14", fmt::format("key '{}' is {}, not a bool", key, type_text(v)));
  return load<u8>(v.bytes.data()) == 1;
}

std::span<const std::string_view> Gguf::strings(std::string_view key) const {
  const Value& v = get(key);
  if (!v.is_array || v.type != ValueType::string)
    fail("GGUF14", fmt::format("key '{}' is {}, not an array of strings", key, type_text(v)));
  return v.strings;
}

std::vector<i64> Gguf::numbers(std::string_view key) const {
  const Value& v = get(key);
  std::vector<i64> out;
  if (v.is_array && v.type != ValueType::string) {
    out.reserve(v.count);
    for (u64 i = 0; i < v.count; ++i)
      if (const auto value = load_integer(v.type, v.bytes.data() + i * scalar_size(v.type))) out.push_back(*value);
  }
  if (!v.is_array || out.size() != v.count)
    fail("GGUF14", fmt::format("key '{}' is {}, not an array of integers below 2^63", key, type_text(v)));
  return out;
}

}  // namespace iron::model
