// Every diagnostic of the recorder and the registry with its full text: one file an error in recorded/.
// IRON_UPDATE_GOLDENS=1 writes what is seen now; the change is then read like any other.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <set>
#include <sstream>

#include "iron/dsl.h"
#include "iron/library.h"

namespace iron {
namespace {

namespace fs = std::filesystem;

template <class K>
std::string recorded(const char* name) {
  try {
    record(unbound<K>(), name);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted\n";
}

struct StepOfZero {
  Out<f32> y;
  void operator()() const {
    for (auto i : range(0, 4, 0)) y[i] = 1.0f;
  }
};

struct EmptyLoop {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    for (auto i : range(4)) (void)x[i];
    y[0] = 1.0f;
  }
};

struct MaskTooLarge {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    const auto t = thread_id();
    const auto v = x[t];
    y[t] = simd_shuffle_xor(v, 32);
  }
};

struct TileOfNothing {
  static constexpr Mode mode = Mode::Threadgroup;
  Out<f32> y;
  void operator()() const {
    Tile<f32, f32> sum(0, 8);
    sum.store(Block(y, 0, 8), 8, 8);
  }
};

struct ValueOfAnotherRecording {
  static inline const Val<f32>* leaked = nullptr;
  static constexpr Mode mode = Mode::Threadgroup;
  Out<f32> y;
  void operator()() const { y[0] = *leaked; }
};
struct Leaks {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  Out<f32> y;
  void operator()() const {
    for (u32 i = 0; i < 40; ++i) (void)x[i];
    static Val<f32> kept = x[40];
    ValueOfAnotherRecording::leaked = &kept;
    y[0] = 1.0f;
  }
};
std::string value_of_another_recording() {
  record(unbound<Leaks>(), "leaks");
  return recorded<ValueOfAnotherRecording>("stranger");
}

struct BreakOutside {
  static constexpr Mode mode = Mode::Threadgroup;
  Out<f32> y;
  void operator()() const {
    const auto t = thread_id();
    break_if(t == 3);
    y[t] = 1.0f;
  }
};

std::string buffer_outside_a_recording() {
  try {
    const Out<f32> y{BufferRef{}};
    y[3] = 1.0f;
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted\n";
}

struct TileStoredToAnInput {
  static constexpr Mode mode = Mode::Threadgroup;
  In<f32> x;
  void operator()() const {
    Tile<f32, f32> sum(8, 8);
    sum.zero();
    sum.store(Block(x, 0, 8), 8, 8);
  }
};

struct HostBreak {
  static constexpr Mode mode = Mode::Threadgroup;
  Out<f32> y;
  void operator()() const {
    for (auto i : range(4)) {
      y[i] = 1.0f;
      break;
    }
  }
};

struct ConstantTooLarge {
  Out<u8> y;
  void operator()() const { y[grid_thread_id()] = 256; }
};

struct CountsOnTheHost {
  static constexpr Mode mode = Mode::Threadgroup;
  Out<u32> y;
  void operator()() const {
    u32 k = 0;
    for (auto i : range(4)) {
      k += 2;
      y[i] = k;
    }
  }
};
std::string host_state() {
  KernelEntry e;
  e.name = "counts";
  e.record = [](bool probe) { return record(unbound<CountsOnTheHost>(), "counts", {.probe = probe}); };
  try {
    record_checked(e);
  } catch (const Error& error) {
    return error.what();
  }
  return "accepted\n";
}

template <class T>
struct Copy {
  In<T> x;
  Out<T> y;
  void operator()() const {
    const auto i = grid_thread_id();
    y[i] = x[i];
  }
};
std::string one_name_twice() {
  try {
    Registry r;
    r.kernel<Copy>("copy", "demo", dtypes<f32>);
    r.kernel<Copy>("copy", "demo", dtypes<f16, f32>);
  } catch (const Error& e) {
    return e.what();
  }
  return "accepted\n";
}

const std::map<std::string, std::function<std::string()>> cases = {
    {"D02_step_of_zero", [] { return recorded<StepOfZero>("step"); }},
    {"D06_empty_loop", [] { return recorded<EmptyLoop>("empty"); }},
    {"D16_mask_too_large", [] { return recorded<MaskTooLarge>("mask"); }},
    {"D16_tile_of_nothing", [] { return recorded<TileOfNothing>("tile"); }},
    {"D17_value_of_another_recording", value_of_another_recording},
    {"D17_break_outside_a_loop", [] { return recorded<BreakOutside>("leaves"); }},
    {"D17_buffer_outside_a_recording", buffer_outside_a_recording},
    {"D21_one_name_twice", one_name_twice},
    {"D24_tile_stored_to_an_input", [] { return recorded<TileStoredToAnInput>("into_input"); }},
    {"D28_host_break", [] { return recorded<HostBreak>("breaks"); }},
    {"D29_constant_too_large", [] { return recorded<ConstantTooLarge>("large"); }},
    {"D33_host_state", host_state},
};

class Recorded : public ::testing::TestWithParam<std::string> {};

TEST_P(Recorded, ReadAsExpected) {
  const fs::path path = fs::path(IRON_SOURCE_DIR) / "tests/errors/recorded" / (GetParam() + ".txt");
  const std::string text = cases.at(GetParam())();
  EXPECT_NE(text.find("[" + GetParam().substr(0, 3) + "]"), std::string::npos)
      << "the case does not show its own code:\n"
      << text;
  EXPECT_NE(text.find("= fix: "), std::string::npos) << "an error without a remedy:\n" << text;
  if (std::getenv("IRON_UPDATE_GOLDENS")) {
    std::ofstream(path) << text;
    return;
  }
  std::ifstream in(path);
  std::stringstream expected;
  expected << in.rdbuf();
  EXPECT_EQ(text, expected.str());
}
std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& [name, run] : cases) all.push_back(name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Cases, Recorded, ::testing::ValuesIn(names()), [](const auto& i) { return i.param; });

// A file that no case writes would be believed and never checked.
TEST(Recorded, EveryFileHasItsCase) {
  for (const auto& f : fs::directory_iterator(fs::path(IRON_SOURCE_DIR) / "tests/errors/recorded"))
    EXPECT_TRUE(cases.count(f.path().stem().string())) << f.path();
}

// Every number of the catalogue has an entry in docs/hazards.md, and a test or a reason why it cannot happen.
TEST(Hazards, EveryNumberIsAnsweredFor) {
  const fs::path root = IRON_SOURCE_DIR;
  std::set<std::string> tested;
  for (const char* folder : {"tests/errors/cases", "tests/errors/recorded", "tests/compile_fail/cases"})
    for (const auto& f : fs::directory_iterator(root / folder))
      tested.insert(f.path().filename().string().substr(0, 3));
  std::map<std::string, std::string> documented;
  std::ifstream hazards(root / "docs/hazards.md");
  for (std::string line; std::getline(hazards, line);)
    if (line.rfind("| D", 0) == 0) documented[line.substr(2, 3)] = line;
  for (int n = 1; n <= 33; ++n) {
    if ((n >= 11 && n <= 15) || n == 31) continue;  // of asynchronous copies
    const std::string code = (n < 10 ? "D0" : "D") + std::to_string(n);
    ASSERT_TRUE(documented.count(code)) << code << " is not in docs/hazards.md";
    EXPECT_TRUE(tested.count(code) || documented[code].find("impossible") != std::string::npos)
        << code << " has neither a test nor a reason why it cannot happen";
  }
}

}  // namespace
}  // namespace iron
