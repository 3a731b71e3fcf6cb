// What `iron lint` finds in a kernel's body, and what it leaves alone.
#include "lint_source.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

namespace iron::tool {
namespace {

// The words that are refused in a body, with their lines counted from the body's first.
std::string found(const std::string& body) {
  const auto result = lint_source("struct K {\n  void operator()() const {\n" + body + "\n  }\n};\n", "k.cpp");
  EXPECT_EQ(result.bodies, 1u);
  std::string out;
  for (const auto& d : result.findings) {
    const auto from = d.message.find('\'');
    out += fmt::format("{}:{} {}", d.line - 2, d.column,
                       d.message.substr(from + 1, d.message.find('\'', from + 1) - from - 1)) +
           "; ";
  }
  return out;
}

TEST(Lint, RefusesLoopsOfTheHost) {
  EXPECT_EQ(found("while (more) { x(); }"), "1:1 while; ");
  EXPECT_EQ(found("  while (more) x();\n  do { x(); } while (more);\n  while (more) ;"),
            "1:3 while; 2:3 do; 3:3 while; ");
  EXPECT_EQ(found("again:\n  goto again;"), "2:3 goto; ");
}

TEST(Lint, RefusesToLeaveWhatIsRecorded) {
  EXPECT_EQ(found("for (auto i : range(n)) continue;"), "1:25 continue; ");
  EXPECT_EQ(found("for (auto i : range(0, n).until(done)) { if (host) break; }"), "1:52 break; ");
  EXPECT_EQ(found("for ([[maybe_unused]] auto i : iron::range(n))\n  if_(c) { x(); } else { break; }"), "2:26 break; ");
  // The branch is a loop of its own, so it is the branch that `continue` would end.
  EXPECT_EQ(found("for (int k = 0; k < 4; ++k) {\n  if_(c) {\n    continue;\n  }\n}"), "3:5 continue; ");
  EXPECT_EQ(found("if_(a) { x(); } else if_(b) { y(); } else break;"), "1:43 break; ");
  EXPECT_EQ(found("for (auto i : range(n))\n  switch (kind) {\n    case 1: continue;\n    default: break;\n  }"),
            "3:13 continue; ");
}

TEST(Lint, LeavesHostLoopsAndOtherFunctionsAlone) {
  EXPECT_EQ(found("for (int k = 0; k < 4; ++k) { if (k == skip) continue; if (k > last) break; }"), "");
  EXPECT_EQ(found("for (const auto& p : pieces) { if (p.empty()) continue; }"), "");
  EXPECT_EQ(found("for (auto i : range(n)) for (int k = 0; k < 4; ++k) if (k == skip) continue;"), "");
  EXPECT_EQ(
      found("const auto all = [&] { for (auto& p : parts) { if (p) continue; } };\nfor (auto i : range(n)) all();"),
      "");
  EXPECT_EQ(found("for (auto i : range(n)) break_if(x[i] == 0u);"), "");
  const auto result =
      lint_source("u32 up() { while (n > 1) --n; }\nstruct K { Grid grid() const { while (n) --n; } };\n", "k.cpp");
  EXPECT_EQ(result.bodies, 0u);
  EXPECT_TRUE(result.findings.empty());
}

TEST(Lint, ReadsNoWordsInCommentsLiteralsAndDirectives) {
  EXPECT_EQ(
      found(
          "// while (x)\n/* goto a;\n while */ print(\"while (\\\"\", 'w');\nconst char* t = R\"x(goto \" while)x\";\n"
          "#define LOOP while (1) \\\n  goto a\nconst u32 many = 1'000'000;"),
      "");
}

TEST(Lint, SurvivesTextThatEndsEarly) {
  for (const std::string text :
       {"{", "if (", "for (auto i : range(", "\"", "'", "R\"x(", "/*", "#define a \\", "while", "do", "case"})
    lint_source("struct K { void operator()() const {" + text, "k.cpp");
}

}  // namespace
}  // namespace iron::tool
