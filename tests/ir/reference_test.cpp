// docs/language.md ends with the op reference exactly as the table gives it. IRON_UPDATE_GOLDENS=1 rewrites it.
#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "ir/reference.h"

namespace iron::ir {
namespace {

TEST(OpReference, IsWhatTheTableSays) {
  const std::string path = std::string(IRON_SOURCE_DIR) + "/docs/language.md";
  constexpr std::string_view mark = "<!-- from here on: rendered from src/ir/ops.def -->\n";
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  const std::string page = text.str();
  const auto at = page.find(mark);
  ASSERT_NE(at, std::string::npos) << path << " has lost its mark";
  const std::string wanted = page.substr(0, at + mark.size()) + reference_page();
  if (std::getenv("IRON_UPDATE_GOLDENS")) std::ofstream(path) << wanted;
  EXPECT_EQ(page, wanted) << "IRON_UPDATE_GOLDENS=1 rewrites the page";
}

}  // namespace
}  // namespace iron::ir
