// A cache gives back what was written, under the key and kind it was written for, or nothing.
#include "core/disk_cache.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <thread>

namespace iron {
namespace {

namespace fs = std::filesystem;

class Disk : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = fs::temp_directory_path() / ("iron_disk_cache_test_" + std::to_string(getpid()));
    fs::remove_all(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }
  std::vector<char> bytes(std::string_view text) { return {text.begin(), text.end()}; }

  fs::path folder_;
};

TEST_F(Disk, GivesBackWhatWasWritten) {
  const DiskCache cache("kind", folder_);
  const Hash128 a = hash128("a"), b = hash128("b");
  EXPECT_FALSE(cache.read(a));
  EXPECT_TRUE(cache.write(a, bytes("first")));
  EXPECT_TRUE(cache.write(b, bytes("")));
  EXPECT_EQ(cache.read(a), bytes("first"));
  EXPECT_EQ(cache.read(b), bytes(""));
  EXPECT_TRUE(cache.write(a, bytes("second")));
  EXPECT_EQ(cache.read(a), bytes("second"));
}

TEST_F(Disk, BelievesNoOtherKindKeyOrByte) {
  const DiskCache cache("kind", folder_), other("other", folder_);
  const Hash128 a = hash128("a"), b = hash128("b");
  ASSERT_TRUE(cache.write(a, bytes("what was compiled")));
  EXPECT_FALSE(other.read(a));
  fs::copy_file(cache.path(a), cache.path(b));
  EXPECT_FALSE(cache.read(b));
  std::ifstream in(cache.path(a), std::ios::binary);
  const std::string good{std::istreambuf_iterator<char>(in), {}};
  for (std::size_t at = 0; at < good.size(); ++at) {
    std::string bad = good;
    bad[at] = static_cast<char>(bad[at] ^ 1);
    std::ofstream(cache.path(a), std::ios::binary) << bad;
    EXPECT_FALSE(cache.read(a)) << "byte " << at;
  }
  for (std::size_t n = 0; n < good.size(); ++n) {
    std::ofstream(cache.path(a), std::ios::binary) << good.substr(0, n);
    EXPECT_FALSE(cache.read(a)) << n << " bytes";
  }
  std::ofstream(cache.path(a), std::ios::binary) << good + "x";
  EXPECT_FALSE(cache.read(a));
}

TEST_F(Disk, WritersAtOnceLeaveOneWholeEntry) {
  const DiskCache cache("kind", folder_);
  const Hash128 a = hash128("a");
  std::vector<std::thread> writers;
  for (char c = 'a'; c < 'e'; ++c)
    writers.emplace_back([&cache, a, c] {
      for (int i = 0; i < 50; ++i) cache.write(a, std::vector<char>(4096, c));
    });
  for (auto& w : writers) w.join();
  const auto found = cache.read(a);
  ASSERT_TRUE(found);
  EXPECT_EQ(*found, std::vector<char>(4096, found->front()));
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()), 1) << "a draft was left behind";
}

TEST_F(Disk, AFolderThatCannotBeMadeKeepsNothing) {
  EXPECT_FALSE(DiskCache("kind", "/proc/nowhere").write(hash128("a"), bytes("x")));
  const DiskCache none("kind", fs::path());
  EXPECT_FALSE(none.write(hash128("a"), bytes("x")));
  EXPECT_FALSE(none.read(hash128("a")));
}

TEST_F(Disk, TheFolderIsChosenByTheEnvironment) {
  const auto set = [](const char* name, const char* value) {
    const char* old = std::getenv(name);
    std::optional<std::string> before;
    if (old) before = old;
    value ? setenv(name, value, 1) : unsetenv(name);
    return before;
  };
  const auto iron = set("IRON_CACHE", "/chosen"), xdg = set("XDG_CACHE_HOME", "/xdg"), home = set("HOME", "/srv/me");
  EXPECT_EQ(cache_root(), "/chosen");
  set("IRON_CACHE", nullptr);
  EXPECT_EQ(cache_root(), "/xdg/iron");
  set("XDG_CACHE_HOME", "");
  EXPECT_EQ(cache_root(), "/srv/me/.cache/iron");
  set("HOME", nullptr);
  EXPECT_EQ(cache_root(), "");
  set("IRON_CACHE", iron ? iron->c_str() : nullptr);
  set("XDG_CACHE_HOME", xdg ? xdg->c_str() : nullptr);
  set("HOME", home ? home->c_str() : nullptr);
}

}  // namespace
}  // namespace iron
