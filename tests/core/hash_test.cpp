// Content hashes are keys of files on disk: their values may not change. Libraries are opened by name at run time.
#include "core/hash.h"

#include <gtest/gtest.h>

#include <array>

#include "core/dynlib.h"

namespace iron {
namespace {

TEST(Hash128, KnownValues) {
  // XXH3's published 128-bit digest of the empty input.
  EXPECT_EQ(hash128(std::string_view{}).hex(), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash128("iron").hex().size(), 32u);
}

TEST(Hash128, TextAndItsBytesAgreeAndOneBitMatters) {
  const std::string text = "kernel softmax";
  EXPECT_EQ(hash128(text), hash128(std::as_bytes(std::span(text))));
  for (std::size_t i = 0; i < text.size() * 8; ++i) {
    std::string flipped = text;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << (i % 8)));
    EXPECT_NE(hash128(flipped), hash128(text)) << i;
  }
}

TEST(DynamicLibrary, TakesTheFirstThatLoadsAndSaysWhyOthersDidNot) {
  const std::array<std::string, 2> names{"libiron-no-such-library.so", "libm.so.6"};
  std::string why;
  const auto library = DynamicLibrary::open(names, &why);
  ASSERT_TRUE(library);
  EXPECT_NE(library.symbol("cos"), nullptr);
  EXPECT_EQ(library.symbol("iron_no_such_symbol"), nullptr);
  EXPECT_NE(why.find("libiron-no-such-library.so"), std::string::npos) << why;
}

TEST(DynamicLibrary, IsEmptyWhenNoneLoads) {
  const std::array<std::string, 1> names{"libiron-no-such-library.so"};
  EXPECT_FALSE(DynamicLibrary::open(names));
}

}  // namespace
}  // namespace iron
