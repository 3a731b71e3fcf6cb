// The disk cache: what it gives back is what was written, and nothing else is believed.
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "cpu/cache.h"
#include "differential.h"

namespace iron::cpu::test {
namespace {
namespace fs = std::filesystem;

constexpr std::string_view text = R"(kernel @twice(%x: in f32, %y: out f32) threadgroup exact {
  %i = grid_thread_id : index
  %v = load %x[%i] : f32
  %r = add %v, %v : f32
  store %y[%i], %r
}
)";

class Cache : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / fmt::format("iron_cache_test_{}", getpid());
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::shared_ptr<Compiled> get(const CpuTarget& target = host_target()) {
    auto code = compile(kernel_, {64, 1, 1}, target, {.use_disk = true, .cache_folder = folder_.string()});
    // Whatever the source, it must compute.
    std::vector<f32> x(128, 1.5f), y(128, 0.0f);
    const LaunchArg args[] = {exec::buffer(x), exec::buffer(y)};
    run_compiled(*code, kernel_, exec::geometry(2, 64), args);
    EXPECT_EQ(y, std::vector<f32>(128, 3.0f));
    return code;
  }
  Hash128 key() { return cache_key(kernel_, {64, 1, 1}, host_target(), llvm_version()); }
  fs::path entry() { return object_cache(folder_.string()).path(key()); }
  std::vector<char> read(const fs::path& p) {
    std::ifstream in(p, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  }
  void write(const fs::path& p, const std::vector<char>& bytes) {
    std::ofstream(p, std::ios::binary | std::ios::trunc)
        .write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  }

  ir::Kernel kernel_ = ir::parse(text);
  fs::path folder_;
};

TEST_F(Cache, SecondCompilationComesFromDisk) {
  EXPECT_FALSE(get()->from_cache);
  ASSERT_TRUE(fs::exists(entry()));
  EXPECT_TRUE(get()->from_cache);
  for (const auto& f : fs::directory_iterator(folder_)) EXPECT_EQ(f.path(), entry()) << "a draft was left behind";
}

TEST_F(Cache, EveryDamagedByteIsNoticed) {
  get();
  const auto good = read(entry());
  for (std::size_t at = 0; at < good.size(); at += at < 128 ? 1 : 97) {
    auto bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 0x40);
    write(entry(), bad);
    EXPECT_FALSE(read_entry(object_cache(folder_.string()), key())) << "byte " << at;
  }
  EXPECT_FALSE(get()->from_cache) << "a damaged entry was used";
  EXPECT_TRUE(get()->from_cache) << "the rebuilt entry was not kept";
}

TEST_F(Cache, CutLengthenedAndEmptyEntriesAreRebuilt) {
  get();
  const auto good = read(entry());
  for (const std::size_t n : {std::size_t{0}, std::size_t{10}, std::size_t{39}, std::size_t{40}, std::size_t{56},
                              good.size() - 1, good.size() + 1}) {
    auto bad = good;
    bad.resize(n);
    write(entry(), bad);
    EXPECT_FALSE(get()->from_cache) << n << " bytes";
    EXPECT_EQ(read(entry()), good);
  }
}

TEST_F(Cache, AnEntryOfAnotherKernelIsNotBelieved) {
  get();
  const auto other = ir::parse(
      "kernel @twice(%x: in f32, %y: out f32) threadgroup exact {\n  %i = grid_thread_id : index\n  %v = load %x[%i] : "
      "f32\n  store %y[%i], %v\n}\n");
  const Hash128 key = cache_key(other, {64, 1, 1}, host_target(), llvm_version());
  fs::copy_file(entry(), object_cache(folder_.string()).path(key));
  EXPECT_FALSE(
      compile(other, {64, 1, 1}, host_target(), {.use_disk = true, .cache_folder = folder_.string()})->from_cache);
}

TEST_F(Cache, KeysTellApartWhatChangesCode) {
  const auto key = [&](Dim3 threads, const CpuTarget& t, std::string_view llvm) {
    return cache_key(kernel_, threads, t, llvm);
  };
  const auto base = key({64, 1, 1}, named_target("avx2"), "llvm 1");
  EXPECT_NE(base, key({32, 2, 1}, named_target("avx2"), "llvm 1"));
  EXPECT_NE(base, key({64, 1, 1}, named_target("sse2"), "llvm 1"));
  EXPECT_NE(base, key({64, 1, 1}, named_target("avx2"), "llvm 2"));
  EXPECT_EQ(base, key({64, 1, 1}, named_target("avx2"), "llvm 1"));
}

TEST_F(Cache, AFolderThatCannotBeWrittenIsNoError) {
  EXPECT_FALSE(
      compile(kernel_, {64, 1, 1}, host_target(), {.use_disk = true, .cache_folder = "/proc/nowhere"})->from_cache);
}

TEST_F(Cache, SmallKernelsCompileWithinTheirBudget) {
  get();
  f64 best = 1e9, cached = 1e9;
  for (int i = 0; i < 5; ++i) {
    const auto c = compile(kernel_, {64, 1, 1}, host_target(), {.use_disk = false});
    best = std::min(best, c->lower_ms + c->optimise_ms + c->codegen_ms + c->link_ms);
    cached = std::min(cached, get()->link_ms);
  }
  RecordProperty("compile_us", static_cast<int>(best * 1000));
  RecordProperty("cached_us", static_cast<int>(cached * 1000));
  fmt::print("small kernel: compiled in {:.2f} ms, linked from the cache in {:.2f} ms\n", best, cached);
  EXPECT_LT(best, 200) << "far over the budget of 10 ms, whatever else the machine does";
}

}  // namespace
}  // namespace iron::cpu::test
