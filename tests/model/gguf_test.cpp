// The GGUF reader: well-formed files, and one clear error for each way in which a file can be wrong.
#include "generate/gguf.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <random>

#include "generate/llama.h"
#include "gguf_writer.h"
#include "iron/error.h"

namespace iron::model {
namespace {

// A small file with a value of every type and two tensors.
GgufWriter small() {
  GgufWriter w;
  w.string("general.architecture", "llama").number("n.u32", 7).real("n.f32", 0.5f);
  w.key("n.u8", Bytes().scalar(u32{0}).scalar(u8{200})).key("n.i8", Bytes().scalar(u32{1}).scalar(i8{-3}));
  w.key("n.u16", Bytes().scalar(u32{2}).scalar(u16{60000})).key("n.i16", Bytes().scalar(u32{3}).scalar(i16{-300}));
  w.key("n.i32", Bytes().scalar(u32{5}).scalar(i32{-70000})).key("n.yes", Bytes().scalar(u32{7}).scalar(u8{1}));
  w.key("n.u64", Bytes().scalar(u32{10}).scalar(~u64{0})).key("n.i64", Bytes().scalar(u32{11}).scalar(i64{1} << 40));
  w.key("n.f64", Bytes().scalar(u32{12}).scalar(0.1));
  w.strings("list", {"one", "", "three\n"}).integers("ids", {3, -1, 2});
  w.tensor("weight", {32, 2}, 3, std::string(40, '\x11'));
  w.tensor("bias", {2}, 0, std::string("\0\0\x80\x3f\0\0\0\x40", 8));
  return w;
}

struct Outcome {
  std::string code = "none", text;
};
Outcome outcome(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& e) {
    return {e.code(), e.what()};
  }
  return {};
}
Outcome parse(const std::string& text) {
  return outcome([&] { Gguf::parse(bytes_of(text), "test.gguf"); });
}

// The code is as expected, and the text holds the words and the name of the file.
void expect(const Outcome& o, const std::string& code, const std::string& words) {
  EXPECT_EQ(o.code, code) << o.text;
  EXPECT_NE(o.text.find(words), std::string::npos) << "no '" << words << "' in: " << o.text;
  EXPECT_NE(o.text.find("test.gguf"), std::string::npos) << o.text;
}

class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& text)
      : path_(testing::TempDir() + fmt::format("iron_{}.gguf", ::getpid())) {
    std::ofstream(path_, std::ios::binary) << text;
  }
  ~TemporaryFile() { ::unlink(path_.c_str()); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

TEST(Gguf, AWellFormedFileIsReadWhole) {
  for (u32 version : {2u, 3u}) {
    GgufWriter w = small();
    w.version = version;
    const std::string text = w.text();
    const Gguf g = Gguf::parse(bytes_of(text), "test.gguf");
    EXPECT_EQ(g.version(), version);
    EXPECT_EQ(g.alignment(), 32u);
    EXPECT_EQ(g.string("general.architecture"), "llama");
    EXPECT_EQ(g.number("n.u32"), 7u);
    EXPECT_EQ(g.number("n.u8"), 200u);
    EXPECT_EQ(g.number("n.u16"), 60000u);
    EXPECT_EQ(g.number("n.i64"), u64{1} << 40);
    EXPECT_EQ(g.real("n.f32"), 0.5);
    EXPECT_EQ(g.real("n.f64"), 0.1);
    EXPECT_TRUE(g.flag("n.yes"));
    ASSERT_EQ(g.strings("list").size(), 3u);
    EXPECT_EQ(g.strings("list")[2], "three\n");
    EXPECT_EQ(g.numbers("ids"), (std::vector<i64>{3, -1, 2}));
    ASSERT_EQ(g.tensors().size(), 2u);
    const Tensor& weight = g.tensor("weight", {32, 2});
    EXPECT_EQ(weight.type, quant::GgufType::q4_1);
    EXPECT_EQ(weight.bytes.size(), 40u);
    EXPECT_EQ(weight.cols(), 32u);
    EXPECT_EQ(weight.rows(), 2u);
    EXPECT_EQ(weight.shape(), "[32, 2] Q4_1");
    f32 bias[2];
    quant::decode(g.tensor("bias").type, g.tensor("bias").bytes, bias);
    EXPECT_EQ(bias[0], 1.0f);
    EXPECT_EQ(bias[1], 2.0f);
    EXPECT_EQ(g.find_tensor("none"), nullptr);
  }
}

TEST(Gguf, AnEmptyModelIsAFile) {
  const std::string text = GgufWriter().text();
  const Gguf g = Gguf::parse(bytes_of(text), "test.gguf");
  EXPECT_TRUE(g.tensors().empty());
  EXPECT_TRUE(g.metadata().empty());
}

TEST(Gguf, TypedAccessRefusesOtherTypes) {
  const std::string text = small().text();
  const Gguf g = Gguf::parse(bytes_of(text), "test.gguf");
  expect(outcome([&] { g.string("nothing"); }), "GGUF14", "there is no key 'nothing'");
  expect(outcome([&] { g.string("n.u32"); }), "GGUF14", "key 'n.u32' is u32, not a string");
  expect(outcome([&] { g.number("general.architecture"); }), "GGUF14", "is string, not a number");
  expect(outcome([&] { g.number("n.i8"); }), "GGUF14", "is i8 -3, not a number from 0 on");
  expect(outcome([&] { g.number("n.u64"); }), "GGUF14", "is u64, not a number");
  expect(outcome([&] { g.number("n.f32"); }), "GGUF14", "is f32");
  expect(outcome([&] { g.number("n.yes"); }), "GGUF14", "is bool");
  expect(outcome([&] { g.number("ids"); }), "GGUF14", "is array of i32");
  expect(outcome([&] { g.number("n.u32", 8, 9); }), "GGUF14", "is 7; it must lie in 8..9");
  expect(outcome([&] { g.real("n.u32"); }), "GGUF14", "not a floating-point number");
  expect(outcome([&] { g.flag("n.u8"); }), "GGUF14", "not a bool");
  expect(outcome([&] { g.strings("ids"); }), "GGUF14", "array of i32, not an array of strings");
  expect(outcome([&] { g.numbers("list"); }), "GGUF14", "array of string, not an array of integers");
  expect(outcome([&] { g.numbers("n.u32"); }), "GGUF14", "not an array of integers");
  expect(outcome([&] { g.tensor("nothing"); }), "GGUF15", "there is no tensor 'nothing'");
  expect(outcome([&] { g.tensor("weight", {32, 3}); }), "GGUF15", "is [32, 2] Q4_1, the model needs [32, 3]");
  expect(outcome([&] { g.tensor("weight", {32}); }), "GGUF15", "the model needs [32]");
}

TEST(GgufMalformed, EveryTruncationIsOneError) {
  GgufWriter w = small();
  const std::string text = w.text();
  const std::size_t infos_end = text.size() - w.data.size();
  for (std::size_t size = 0; size < text.size(); ++size) {
    const Outcome o = parse(text.substr(0, size));
    if (size < infos_end - 32)
      EXPECT_TRUE(o.code == "GGUF02" || o.code == "GGUF05") << size << o.text;
    else
      EXPECT_TRUE(o.code == "GGUF02" || o.code == "GGUF05" || o.code == "GGUF12") << size << o.text;
  }
  expect(parse(text.substr(0, text.size() - 1)), "GGUF12", "tensor 'bias' [2] F32 needs 8 bytes at offset 64");
  expect(parse(""), "GGUF02", "the file has 0 bytes");
  expect(parse(text.substr(0, 10)), "GGUF02", "ends inside the number of tensors");
}

TEST(GgufMalformed, HeaderErrors) {
  const auto with = [](auto change) {
    GgufWriter w = small();
    change(w);
    return parse(w.text());
  };
  expect(with([](auto& w) { w.magic = "GGML"; }), "GGUF03", "not begin with 'GGUF' but with 'GGML'");
  expect(with([](auto& w) { w.magic = "\x1b[2J"; }), "GGUF03", "'\\x1b[2J'");
  for (u32 version : {0u, 1u, 4u, 77u})
    expect(with([&](auto& w) { w.version = version; }), "GGUF04", fmt::format("version {} is not supported", version));
  expect(with([](auto& w) { w.version = 0x03000000; }), "GGUF04", "big-endian (version 3)");
  for (u64 count : {~u64{0} - 1, u64{1} << 63, u64{1} << 32, u64{10000}}) {
    expect(with([&](auto& w) { w.claimed_keys = count; }), "GGUF05", fmt::format("number of keys is {}", count));
    expect(with([&](auto& w) { w.claimed_tensors = count; }), "GGUF05", fmt::format("number of tensors is {}", count));
  }
}

TEST(GgufMalformed, KeyErrors) {
  const auto with = [](const std::string& name, const Bytes& value) { return parse(small().key(name, value).text()); };
  const Bytes one = Bytes().scalar(u32{4}).scalar(u32{1});
  expect(with("", one), "GGUF06", "the name of key 14 is empty");
  expect(with(std::string(65536, 'k'), one), "GGUF06", "is 65536 bytes long; at most 65535");
  expect(with(std::string("a\0b", 3), one), "GGUF06", "'a\\x00b' is not printable");
  expect(with("a\x1b[31m", one), "GGUF06", "'a\\x1b[31m'");
  expect(with("a\xff", one), "GGUF06", "'a\\xff'");
  expect(with("\xc0\xaf", one), "GGUF06", "is not printable UTF-8");
  expect(with("n.u32", one), "GGUF08", "key 'n.u32' occurs twice");
  expect(with("k", Bytes().scalar(u32{13}).scalar(u32{1})), "GGUF07", "key 'k' has the unknown value type 13");
  expect(with("k", Bytes().scalar(u32{0xffffffff})), "GGUF07", "unknown value type 4294967295");
  expect(with("k", Bytes().scalar(u32{7}).scalar(u8{2})), "GGUF07", "a bool of value 2");
  expect(with("k", Bytes().scalar(u32{9}).scalar(u32{13}).scalar(u64{0})), "GGUF07", "the elements of key 'k'");
  expect(with("k", Bytes().scalar(u32{9}).scalar(u32{9}).scalar(u64{1})), "GGUF07", "is an array of arrays");
  for (u32 type : {0u, 4u, 8u, 12u})
    for (u64 count : {~u64{0}, u64{1} << 61, u64{1} << 40})
      expect(with("k", Bytes().scalar(u32{9}).scalar(type).scalar(count)), "GGUF05",
             fmt::format("the length of key 'k' is {}", count));
  for (u64 length : {~u64{0}, u64{1} << 30}) {
    expect(with("k", Bytes().scalar(u32{8}).scalar(length)), "GGUF02",
           fmt::format("is {} bytes long, but only", length));
    expect(with("k", Bytes().scalar(u32{9}).scalar(u32{8}).scalar(u64{2}).string("x").scalar(length)), "GGUF02",
           fmt::format("key 'k' is {} bytes long", length));
  }
  for (u32 alignment : {0u, 1u, 4u, 13u, 48u, 131072u, 1u << 31})
    expect(parse(small().number("general.alignment", alignment).text()), "GGUF09",
           fmt::format("general.alignment is {}", alignment));
  expect(with("general.alignment", Bytes().scalar(u32{5}).scalar(i32{-32})), "GGUF14", "is i32 -32");
  expect(parse(small().string("general.alignment", "32").text()), "GGUF14", "is string, not a number");
}

TEST(GgufMalformed, TensorErrors) {
  const auto with = [](auto change) {
    GgufWriter w = small();
    change(w);
    return parse(w.text());
  };
  using W = GgufWriter;
  expect(with([](W& w) { w.tensors[0].name = ""; }), "GGUF06", "the name of tensor 0 is empty");
  expect(with([](W& w) { w.tensors[0].name = std::string(65, 't'); }), "GGUF06", "is 65 bytes long; at most 64");
  expect(with([](W& w) { w.tensors[0].name = "a\nb"; }), "GGUF06", "'a\\x0ab'");
  expect(with([](W& w) { w.tensors[1].name = "weight"; }), "GGUF08", "tensor 'weight' occurs twice");
  expect(with([](W& w) { w.tensors[0].dims = {}; }), "GGUF10", "has 0 dimensions");
  expect(with([](W& w) { w.tensors[0].dims = {1, 1, 1, 1, 1}; }), "GGUF10", "has 5 dimensions");
  expect(with([](W& w) { w.tensors[0].dims = {32, 0}; }), "GGUF10", "dimension 1 of tensor 'weight' is zero");
  expect(with([](W& w) { w.tensors[0].dims = {33, 2}; }), "GGUF10",
         "has 33 elements, which is no whole number of Q4_1");
  expect(with([](W& w) { w.tensors[0].dims = {u64{1} << 33, u64{1} << 31}; }), "GGUF10", "pass 64 bits");
  // Products that wrap to something small, and byte sizes that do.
  expect(with([](W& w) { w.tensors[0].dims = {u64{1} << 42, (u64{1} << 22) + 1}; }), "GGUF10", "the elements of");
  expect(with([](W& w) { w.tensors[1].dims = {(u64{1} << 62) + 2}; }), "GGUF10", "the bytes of tensor 'bias'");
  for (u32 type : {4u, 5u, 9u, 10u, 13u, 24u, 31u, 1000u, 0xffffffffu})
    expect(with([&](W& w) { w.tensors[0].type = type; }), "GGUF11", fmt::format("'weight' has type {}", type));
  expect(with([](W& w) { w.tensors[0].offset = 8; }), "GGUF12", "no multiple of the alignment 32");
  expect(with([](W& w) { w.tensors[0].offset = u64{1} << 40; }), "GGUF12", "at offset 1099511627776 of the data");
  expect(with([](W& w) { w.tensors[0].offset = ~u64{31}; }), "GGUF12", "at offset 18446744073709551584");
  expect(with([](W& w) { w.tensors[0].dims = {32, 4}; }), "GGUF12", "'weight' [32, 4] Q4_1 needs 80 bytes at offset 0");
  expect(with([](W& w) { w.tensors[1].offset = 32; }), "GGUF12",
         "'bias' at offset 32 overlaps tensor 'weight', which ends at 40");
  expect(with([](W& w) { w.tensors[1].dims = {3}; }), "GGUF12",
         "needs 12 bytes at offset 64 of the data, which has 72");
  expect(with([](W& w) { w.tensors[1].type = 3, w.tensors[1].dims = {32}; }), "GGUF12", "[32] Q4_1 needs 20 bytes");
  expect(with([](W& w) { w.data += std::string(100, 'x'); }), "GGUF13", "100 bytes follow the last tensor");
}

TEST(GgufMalformed, TrailingBytesCanBeAllowedAndPaddingAlwaysIs) {
  GgufWriter w = small();
  w.data.resize(96);  // the last tensor padded to the alignment
  EXPECT_EQ(parse(w.text()).code, "none");
  const std::string text = w.text() + std::string(1000, 'x');
  EXPECT_EQ(parse(text).code, "GGUF13");
  EXPECT_EQ(Gguf::parse(bytes_of(text), "test.gguf", {.allow_trailing = true}).tensors().size(), 2u);
}

TEST(GgufMalformed, ErrorsNameTheByte) {
  GgufWriter w = small();
  w.tensors[0].type = 99;
  const std::string text = w.text();
  const std::size_t at = text.find("weight") + 6 + 4 + 16;  // behind name, rank and two extents
  expect(parse(text), "GGUF11", fmt::format("byte {}:", at));
}

// Any byte string is safe to open: an error of ours, or a file whose tensors lie inside it. The sanitizer builds watch.
TEST(GgufMalformed, DamagedFilesNeverEscape) {
  const std::string whole = small().text();
  std::mt19937 random(1);
  int accepted = 0;
  for (int turn = 0; turn < 20000; ++turn) {
    std::string text = whole;
    for (u32 n = 1 + static_cast<u32>(random()) % 3; n > 0; --n) {
      const std::size_t at = random() % text.size();
      if (random() % 4 == 0)
        text.replace(at, std::min<std::size_t>(8, text.size() - at), 8, random() % 2 ? '\xff' : '\0');
      else
        text[at] = static_cast<char>(random());
    }
    const Outcome o = outcome([&] {
      const Gguf g = Gguf::parse(bytes_of(text), "test.gguf");
      for (const Tensor& t : g.tensors()) {
        std::vector<f32> values(t.rows() * t.cols());
        quant::decode(t.type, t.bytes, values);
      }
      ++accepted;
    });
    EXPECT_TRUE(o.code == "none" || o.code.starts_with("GGUF")) << o.text;
  }
  EXPECT_GT(accepted, 100) << "damage to values and weights alone must still parse";
}

TEST(GgufOpen, AFileIsMappedAndOutlivesMoves) {
  const TemporaryFile file(small().text());
  Gguf first = Gguf::open(file.path());
  const Gguf g = std::move(first);
  EXPECT_EQ(g.string("general.architecture"), "llama");
  EXPECT_EQ(g.tensor("weight").bytes[39], std::byte{0x11});
  EXPECT_EQ(g.name(), file.path());
}

TEST(GgufOpen, WhatIsNoReadableFileIsAnError) {
  const auto missing = outcome([] { Gguf::open("/nonexistent/test.gguf"); });
  expect(missing, "GGUF01", "/nonexistent/test.gguf: cannot open the file: No such file or directory");
  EXPECT_EQ(outcome([] { Gguf::open(testing::TempDir()); }).code, "GGUF01");
  EXPECT_EQ(outcome([] { Gguf::open("/dev/null"); }).code, "GGUF01");
  const TemporaryFile empty("");
  EXPECT_EQ(outcome([&] { Gguf::open(empty.path()); }).code, "GGUF02");
}

// A sparse file of more bytes than the address space has cannot be mapped on any machine.
TEST(GgufOpen, NoMemoryIsAnError) {
  const int file = ::memfd_create("test.gguf", MFD_CLOEXEC);
  ASSERT_GE(file, 0);
  ASSERT_EQ(::ftruncate(file, off_t{1} << 57), 0);
  const auto o = outcome([&] { Gguf::open(fmt::format("/proc/self/fd/{}", file)); });
  EXPECT_EQ(o.code, "GGUF16") << o.text;
  EXPECT_NE(o.text.find("no memory to map the file"), std::string::npos) << o.text;
  ::close(file);
}

// A llama model of one tiny layer, with zero weights.
GgufWriter tiny_llama() {
  GgufWriter w;
  w.string("general.architecture", "llama");
  w.number("llama.block_count", 1).number("llama.embedding_length", 32).number("llama.feed_forward_length", 64);
  w.number("llama.attention.head_count", 4)
      .number("llama.attention.head_count_kv", 2)
      .number("llama.context_length", 16);
  w.number("llama.vocab_size", 3).number("llama.rope.dimension_count", 8).real("llama.rope.freq_base", 10000.0f);
  w.real("llama.attention.layer_norm_rms_epsilon", 1e-5f).strings("tokenizer.ggml.tokens", {"a", "b", "c"});
  const auto f32s = [&](const std::string& name, std::vector<u64> dims) {
    u64 count = 4;
    for (u64 d : dims) count *= d;
    w.tensor(name, dims, 0, std::string(count, '\0'));
  };
  f32s("token_embd.weight", {32, 3});
  f32s("output_norm.weight", {32});
  for (const char* norm : {"attn_norm", "ffn_norm"}) f32s(fmt::format("blk.0.{}.weight", norm), {32});
  f32s("blk.0.attn_q.weight", {32, 32});
  f32s("blk.0.attn_k.weight", {32, 16});
  f32s("blk.0.attn_v.weight", {32, 16});
  f32s("blk.0.attn_output.weight", {32, 32});
  f32s("blk.0.ffn_gate.weight", {32, 64});
  f32s("blk.0.ffn_up.weight", {32, 64});
  f32s("blk.0.ffn_down.weight", {64, 32});
  return w;
}

Outcome load_llama(const GgufWriter& w) {
  const std::string text = w.text();
  return outcome([&] {
    const Gguf g = Gguf::parse(bytes_of(text), "test.gguf");
    const LlamaConfig c = read_llama_config(g);
    const LlamaWeights weights = find_llama_weights(g, c);
    EXPECT_EQ(c.head_dim, 8u);
    EXPECT_EQ(c.kv_heads, 2u);
    EXPECT_EQ(weights.layers.size(), 1u);
    EXPECT_EQ(weights.layers[0].down->name, "blk.0.ffn_down.weight");
    EXPECT_EQ(weights.head == weights.embedding, !g.find_tensor("output.weight"));
  });
}

TEST(LlamaSchema, AFittingFileIsAcceptedTiedOrNot) {
  EXPECT_EQ(load_llama(tiny_llama()).text, "");
  EXPECT_EQ(load_llama(tiny_llama().tensor("output.weight", {32, 3}, 0, std::string(384, '\0'))).text, "");
}

TEST(LlamaSchema, SizesThatDisagreeAreErrors) {
  const auto with_key = [](const std::string& name, u32 value) {
    GgufWriter w = tiny_llama();
    for (auto& [key, bytes] : w.keys)
      if (key == name) bytes = Bytes().scalar(u32{4}).scalar(value).text();
    return load_llama(w);
  };
  expect(with_key("llama.attention.head_count", 0), "GGUF14", "is 0; it must lie in 1..1024");
  expect(with_key("llama.attention.head_count_kv", 8), "GGUF14", "it must lie in 1..4");
  expect(with_key("llama.attention.head_count_kv", 3), "GGUF14", "4 heads (3 for keys and values)");
  expect(with_key("llama.block_count", 2), "GGUF15", "there is no tensor 'blk.1.attn_norm.weight'");
  expect(with_key("llama.block_count", 1u << 31), "GGUF14", "must lie in 1..1024");
  expect(with_key("llama.feed_forward_length", 96), "GGUF15", "is [32, 64] F32, the model needs [32, 96]");
  expect(with_key("llama.vocab_size", 4), "GGUF14", "the vocabulary has 3 tokens, llama.vocab_size is 4");
  expect(with_key("llama.rope.freq_base", 10000), "GGUF14", "is u32, not a floating-point number");
  GgufWriter other = tiny_llama();
  other.keys[0].second = Bytes().scalar(u32{8}).string("gemma").text();
  expect(load_llama(other), "GGUF14", "the architecture is 'gemma'");
  GgufWriter lacking = tiny_llama();
  lacking.tensors.pop_back();
  lacking.data.resize(lacking.tensors.back().offset + 32 * 64 * 4);
  expect(load_llama(lacking), "GGUF15", "there is no tensor 'blk.0.ffn_down.weight'");
  expect(load_llama(tiny_llama().string("llama.rope.scaling.type", "yarn")), "GGUF14", "scaled rotary embedding");
}

}  // namespace
}  // namespace iron::model
