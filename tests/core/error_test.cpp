// How a diagnostic reads: place, source line, caret, notes, remedy.
#include "iron/error.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace iron {
namespace {

TEST(Diagnostic, RendersPlaceNotesAndFix) {
  Diagnostic d;
  d.code = "D22";
  d.message = "a threadgroup array is never written";
  d.file = "no/such/file.cpp";
  d.line = 7;
  d.kernel = "softmax";
  d.after_pass = "licm";
  d.notes.push_back({"declared here", "other.cpp", 3});
  d.fix = "store to it before the barrier";
  EXPECT_EQ(d.render(),
            "error[D22]: a threadgroup array is never written\n"
            "  --> no/such/file.cpp:7\n"
            "  = kernel softmax, after licm\n"
            "  = note: declared here (other.cpp:3)\n"
            "  = fix: store to it before the barrier\n");
}

TEST(Diagnostic, ShowsTheSourceLineWithACaretUnderTheColumn) {
  const auto path = std::filesystem::temp_directory_path() / "iron_error_test.iron";
  std::ofstream(path) << "first\n\tx = y + z\n";
  Diagnostic d;
  d.message = "unknown value";
  d.file = path.string();
  d.line = 2;
  d.column = 6;
  EXPECT_EQ(d.render(), "error: unknown value\n  --> " + d.file + ":2:6\n  |\n2 | \tx = y + z\n  | \t    ^\n");
  std::filesystem::remove(path);
}

TEST(Error, CarriesEveryDiagnostic) {
  Diagnostic first, second;
  first.code = "A1";
  second.code = "A2";
  const Error error({first, second});
  EXPECT_EQ(error.diagnostics().size(), 2u);
  EXPECT_EQ(error.code(), "A1");
  EXPECT_NE(std::string(error.what()).find("A2"), std::string::npos);
}

TEST(Error, SourceLocationIsTheCallers) {
  const auto place = SourceLocation::here();
  EXPECT_EQ(place.line, __LINE__ - 1);
  EXPECT_TRUE(std::string(place.file).ends_with("error_test.cpp"));
}

}  // namespace
}  // namespace iron
