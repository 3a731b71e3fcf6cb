// The witness of the registry: every kernel with its family and element types, and a count and digest of them, in
// inventory.txt. A kernel that disappears, or changes its name, is seen here. IRON_UPDATE_GOLDENS=1 writes what there
// is.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>

#include "core/hash.h"
#include "iron/library.h"

namespace iron {
namespace {

TEST(Inventory, IsWhatTheWitnessSays) {
  std::map<std::string, std::string> rows;  // family and name -> element types, in the order of registration
  std::size_t count = 0;
  for (const auto& e : standard_library().entries()) {
    rows[e.family + " " + e.name] += " " + std::string(dtype_name(e.dtype));
    ++count;
  }
  std::string list;
  for (const auto& [kernel, types] : rows) list += kernel + types + "\n";
  const auto now = fmt::format("{} kernels, {} with their element types, digest {}\n{}", rows.size(), count,
                               hash128(list).hex(), list);
  const std::string path = std::string(IRON_SOURCE_DIR) + "/tests/kernels/inventory.txt";
  if (std::getenv("IRON_UPDATE_GOLDENS")) std::ofstream(path) << now;
  std::ifstream in(path);
  std::stringstream witness;
  witness << in.rdbuf();
  EXPECT_EQ(witness.str(), now) << "IRON_UPDATE_GOLDENS=1 writes " << path;
}

TEST(Inventory, EveryKernelSaysWhatItIs) {
  for (const auto& e : standard_library().entries()) {
    EXPECT_GT(e.doc.size(), 10u) << e.full_name();
    EXPECT_FALSE(e.determinism.empty()) << e.full_name();
    EXPECT_TRUE(e.name.starts_with("iron_")) << e.full_name();
  }
}

// A bench without an expectation is not timed, and one without work has no figure to compare.
TEST(Inventory, EveryBenchIsProvenAndHasWork) {
  std::map<std::string, const KernelEntry*> one;  // an element type stands for all: cases are made alike
  for (const auto& e : standard_library().entries())
    if (e.dtype != DType::f16 && e.dtype != DType::bf16) one.emplace(e.name, &e);
  ASSERT_GT(one.size(), 100u);
  if (!std::getenv("IRON_TEST_FULL")) GTEST_SKIP() << "makes the data of every bench: IRON_TEST_FULL=1";
  for (const auto& [name, e] : one)
    for (const auto& b : e->benches) {
      Gen g(1);
      const auto c = b.make(g);
      EXPECT_FALSE(c.expectations.empty()) << name << ", " << b.shape;
    }
}

}  // namespace
}  // namespace iron
