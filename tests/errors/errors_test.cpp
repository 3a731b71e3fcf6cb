// Every diagnostic of the verifier, the advice and the launch contract with its full text: one file an error in cases/.
//
// A case is a kernel, then a line of dashes, then what the user sees. Lines before the kernel say what is done with it:
//   // advise                     warnings and remarks
//   // launch groups=8 x=100 ...  a launch: elements of buffers, bits of scalars, and groups, threads, items, and
//   limits
//   // dtypes f16 f32             the caller's element types
//   // inline NAME                that kernel, with the others as what it may call
//   // pass NAME                  what the pass says it left undone
//   // target sm_80               what the device lacks
// IRON_UPDATE_GOLDENS=1 writes what is seen now; the change is then read like any other.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <set>
#include <sstream>

#include "analysis/contract.h"
#include "analysis/verify.h"
#include "ir/text.h"
#include "passes/pipeline.h"
#include "target/requirement.h"

namespace iron::analysis {
namespace {

namespace fs = std::filesystem;

struct Case {
  std::string name, input, expected, kernel;
  std::vector<std::string> directives;
};

std::string read(const fs::path& path) {
  std::ifstream in(path);
  std::stringstream s;
  s << in.rdbuf();
  return s.str();
}

Case load(const fs::path& path) {
  Case c;
  c.name = path.stem().string();
  const std::string text = read(path);
  const auto cut = text.find("----\n");
  c.input = text.substr(0, cut);
  if (cut != std::string::npos) c.expected = text.substr(cut + 5);
  std::stringstream lines(c.input);
  for (std::string line; std::getline(lines, line);) {
    if (line.rfind("// ", 0) == 0 && c.kernel.empty())
      c.directives.push_back(line.substr(3));
    else
      c.kernel += line + "\n";
  }
  return c;
}

std::string render(const std::vector<Diagnostic>& found) {
  std::string s;
  for (const auto& d : found) s += d.render();
  return s;
}

Dim3 dim(const std::string& text) {
  Dim3 d;
  char x = 0;
  std::stringstream s(text);
  s >> d.x >> x >> d.y >> x >> d.z;
  if (d.y == 0 && text.find('x') == std::string::npos) d.y = 1;
  if (d.z == 0 && std::count(text.begin(), text.end(), 'x') < 2) d.z = 1;
  return d;
}

std::vector<Diagnostic> launch(const ir::Kernel& k, std::stringstream& words) {
  std::map<std::string, std::string> given;
  for (std::string word; words >> word;) given[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  const auto number = [&](const char* key, u64 other) { return given.count(key) ? std::stoull(given[key]) : other; };
  LaunchGeometry g{dim(given["groups"]), dim(given["threads"]), number("items", 0)};
  DeviceLimits limits;
  limits.shared_bytes = number("shared", limits.shared_bytes);
  limits.max_trips = number("trips", 0);
  if (given.count("max_groups")) limits.max_groups.y = limits.max_groups.z = static_cast<u32>(number("max_groups", 0));
  std::vector<LaunchArg> args;
  u64 address = 1 << 20;
  for (const auto& p : k.params) {
    LaunchArg a;
    const u64 value = number(p.name.c_str(), 0);
    if (p.is_buffer()) {
      a.bytes = value * dtype_size(p.elem);
      if (given["null"] != p.name) a.data = reinterpret_cast<void*>(address + number("shift", 0));
      if (!number("same", 0)) address += 1 << 20;
    } else
      a.scalar = value;
    args.push_back(a);
  }
  args.resize(args.size() - number("drop", 0));
  return check(derive(k), g, args, limits);
}

// Inlining what a kernel of the case calls.
void inline_calls(const std::string& text, const std::string& name) {
  auto kernels = ir::parse_all(text, "demo.iron");
  passes::PassOptions options;
  passes::KernelRegistry known;
  for (const auto& k : kernels) known[k.name] = &k;
  options.kernels = &known;
  for (auto& k : kernels)
    if (k.name == name) {
      auto caller = k;
      passes::run_passes(caller, std::vector<std::string>{"kernel_inline"}, options);
    }
}

// What the user sees of a case.
std::string seen(const Case& c) {
  try {
    for (const auto& directive : c.directives)
      if (directive.rfind("inline ", 0) == 0) {
        inline_calls(c.kernel, directive.substr(7));
        return "accepted\n";
      }
    const auto k = ir::parse(c.kernel, "demo.iron");
    std::string text = render(verify(k));
    if (!text.empty()) return text;
    for (const auto& directive : c.directives) {
      std::stringstream words(directive);
      std::string what;
      words >> what;
      if (what == "advise")
        text += render(advise(k));
      else if (what == "launch")
        text += render(launch(k, words));
      else if (what == "target") {
        words >> what;
        text += render(target::fit(k, target::profile(what)));
      } else if (what == "pass") {
        words >> what;
        auto changed = k;
        for (const auto& remark : passes::run_passes(changed, std::vector<std::string>{what}).remarks)
          if (remark.kind == passes::RemarkKind::missed) text += passes::to_string(remark) + "\n";
      } else if (what == "dtypes") {
        std::vector<DType> given;
        for (std::string w; words >> w;) given.push_back(dtype_from_name(w));
        text += render(check_dtypes(k, given));
      } else
        text += "unknown directive " + what + "\n";
    }
    return text;
  } catch (const Error& e) {
    return e.what();
  }
}

const fs::path folder = fs::path(IRON_SOURCE_DIR) / "tests/errors/cases";

std::vector<fs::path> files() {
  std::vector<fs::path> all;
  for (const auto& f : fs::directory_iterator(folder))
    if (f.path().extension() == ".txt") all.push_back(f.path());
  std::sort(all.begin(), all.end());
  return all;
}

class Errors : public ::testing::TestWithParam<fs::path> {};

TEST_P(Errors, ReadAsExpected) {
  const Case c = load(GetParam());
  const std::string text = seen(c);
  const std::string code = c.name.substr(0, c.name.find('_'));
  if (code == "D09") {  // a remark: it names the pass, and the fact that was missing
    EXPECT_NE(text.find("missed ["), std::string::npos) << text;
    EXPECT_NE(text.find("missing: "), std::string::npos) << text;
  } else {
    EXPECT_NE(text.find("[" + code + "]"), std::string::npos) << "the case does not show its own code:\n" << text;
    EXPECT_NE(text.find("= fix: "), std::string::npos) << "an error without a remedy:\n" << text;
  }
  if (std::getenv("IRON_UPDATE_GOLDENS"))
    std::ofstream(GetParam()) << c.input << "----\n" << text;
  else
    EXPECT_EQ(text, c.expected);
}
INSTANTIATE_TEST_SUITE_P(Cases, Errors, ::testing::ValuesIn(files()),
                         [](const auto& info) { return info.param.stem().string(); });

// Codes that this folder answers for: a case must not get lost.
TEST(Errors, EveryCodeHasACase) {
  std::set<std::string> have;
  for (const auto& f : files()) have.insert(f.stem().string().substr(0, f.stem().string().find('_')));
  for (const char* code : {"D01", "D02", "D03",      "D04",      "D06",      "D08",      "D09",     "D10", "D16",
                           "D17", "D18", "D20",      "D22",      "D23",      "D24",      "D25",     "D26", "D27",
                           "D30", "D32", "LAUNCH01", "LAUNCH02", "LAUNCH03", "LAUNCH04", "LAUNCH05"})
    EXPECT_TRUE(have.count(code)) << code;
}

}  // namespace
}  // namespace iron::analysis
