// Generated kernels: where the launch contract accepts, the interpreter finds no access out of bounds, no runaway loop
// and no index outside the width that the contract chose, in buffers of the least size accepted; what fits exactly is
// not refused.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "analysis/contract.h"
#include "exec/exec.h"
#include "ir/text.h"

namespace iron::analysis {
namespace {

// Writes IR text: index arithmetic of all kinds under nested branches and loops, ending in reads of x.
class Generator {
 public:
  explicit Generator(u64 seed) : random_(seed) {}

  std::string kernel() {
    text_ =
        "kernel @generated(%x: in f32, %idx: in u32, %y: out f32, %n: scalar u32, %m: scalar u32) threadgroup exact "
        "{\n";
    line("%tid = thread_id : index");
    line("%gid = group_id<x> : index");
    line("%gtid = grid_thread_id : index");
    line("%lane = lane_id : index");
    line("%sg = simdgroup_id : index");
    line("%size = group_size : index");
    line("%ni = cast %n : index");
    line("%mi = cast %m : index");
    line("%slot = rem %tid, 16 : index");
    line("%data = load %idx[%slot] : u32");
    line("%di = cast %data : index");
    line("%sh = shared.new<512> : shared f32");
    index_ = {"%tid", "%gid", "%gtid", "%lane", "%sg", "%size", "%ni", "%mi", "%di"};
    words_ = {"%n", "%m", "%data"};
    block(0);
    line("store %y[%gtid], 1.0:f32");
    return text_ + "}\n";
  }

 private:
  u32 pick(u32 n) { return std::uniform_int_distribution<u32>(0, n - 1)(random_); }
  void line(const std::string& s) { text_ += "  " + s + "\n"; }
  std::string fresh() { return "%v" + std::to_string(next_++); }
  std::string leaf() { return pick(4) == 0 ? std::to_string(pick(9)) : index_[pick(static_cast<u32>(index_.size()))]; }
  std::string word() {
    return pick(3) == 0 ? std::to_string(pick(9)) + ":u32" : words_[pick(static_cast<u32>(words_.size()))];
  }

  std::string index() {
    const std::string v = fresh(), a = leaf(), b = leaf();
    switch (pick(16)) {
      case 0:
      case 1:
      case 2:
        line(v + " = add " + a + ", " + b + " : index");
        break;
      case 3:
        line(v + " = sub " + a + ", " + b + " : index");
        break;
      case 4:
      case 5:
        line(v + " = mul " + a + ", " + b + " : index");
        break;
      case 6:
        line(v + " = div " + a + ", " + b + " : index");
        break;
      case 7:
        line(v + " = rem " + a + ", " + b + " : index");
        break;
      case 8:
        line(v + " = min " + a + ", " + b + " : index");
        break;
      case 9:
        line(v + " = max " + a + ", " + b + " : index");
        break;
      case 10:
        line(v + " = bounded " + a + ", 0, " + std::to_string(pick(40)) + " : index");
        break;
      case 11:
        line(fmt::format("{} = {} {}, {} : index", v, pick(2) ? "shl" : "shr", a, pick(4)));
        break;
      case 12:
        line(fmt::format("{} = {} {}, {} : index", v, pick(3) ? "and" : "xor", a, (1 << pick(6)) - 1));
        break;
      case 13: {
        const std::string c = condition();
        line(v + " = select " + c + ", " + a + ", " + b + " : index");
        break;
      }
      case 14: {
        static constexpr const char* ops[] = {"add", "sub", "mul", "div", "rem", "min", "max", "and", "or", "xor"};
        const std::string w = fresh();
        line(fmt::format("{} = {} {}, {} : u32", w, ops[pick(10)], word(), word()));
        words_.push_back(w);
        line(v + " = cast " + w + " : index");
        break;
      }
      default:
        line(v + " = sub " + leaf() + ", 1 : index");
    }
    index_.push_back(v);
    return v;
  }
  std::string condition() {
    static constexpr const char* ops[] = {"lt", "le", "gt", "ge", "eq", "ne"};
    const std::string c = fresh();
    if (pick(5) == 0)
      line(fmt::format("{} = {} {}, {} : bool", c, ops[pick(6)], word(), word()));
    else
      line(fmt::format("{} = {} {}, {} : bool", c, ops[pick(4)], leaf(),
                       pick(2) ? leaf() : std::to_string(1 + pick(200))));
    if (pick(4) == 0) {
      const std::string d = condition(), e = fresh();
      line(fmt::format("{} = {} {}, {} : bool", e, pick(3) ? "and" : "or", c, d));
      return e;
    }
    if (pick(8) == 0) {
      const std::string e = fresh();
      line(e + " = not " + c + " : bool");
      return e;
    }
    return c;
  }
  void touch() {
    const std::string i = pick(2) ? index() : leaf(), v = fresh();
    switch (pick(4)) {
      case 0:
        line("store %sh[" + i + "], 1.0:f32");
        break;
      case 1: {
        const std::string c = condition();
        line(fmt::format("{} = load.or %x[{}], {}, 0.0:f32 : f32", v, i, c));
        line(fmt::format("store %y[%gtid], {}", v));
        break;
      }
      default:
        line(fmt::format("{} = load %x[{}] : f32", v, i)), line(fmt::format("store %y[%gtid], {}", v));
    }
  }
  void block(int depth) {
    const u32 count = 1 + pick(3);
    for (u32 i = 0; i < count; ++i) {
      switch (depth < 3 ? pick(5) : 4) {
        case 0:
        case 1: {
          for (u32 n = pick(3); n > 0; --n) index();
          const auto outer = index_;
          const auto outer_words = words_;
          const std::string c = condition();
          const bool gives = pick(3) == 0;
          const std::string r = fresh();
          line((gives ? r + " = " : "") + "if " + c + (gives ? " : index {" : " {"));
          block(depth + 1);
          if (gives) line("yield " + leaf());
          index_ = outer, words_ = outer_words;
          if (gives || pick(2)) {
            line("} else {");
            block(depth + 1);
            if (gives) line("yield " + (pick(2) ? leaf() : outer[pick(static_cast<u32>(outer.size()))]));
          }
          line("}");
          index_ = outer, words_ = outer_words;
          if (gives) index_.push_back(r);
          break;
        }
        case 2:
        case 3: {
          const std::string end = fresh(), iv = fresh(), p = fresh(), q = fresh(), r = fresh(), start = leaf(),
                            init = leaf();
          line(fmt::format("{} = min {}, {} : index", end, leaf(), 1 + pick(24)));
          const std::string step = pick(3) ? std::to_string(1 + pick(4)) : "%size";
          const auto outer = index_;
          const auto outer_words = words_;
          line(fmt::format("{} = for {} = {} to {} step {} carry({} = {}) : index {{", r, iv, pick(2) ? "0" : start,
                           end, step, p, init));
          index_.push_back(iv), index_.push_back(iv), index_.push_back(p);
          block(depth + 1);
          switch (pick(6)) {
            case 0:
            case 1:
            case 2:
              line(fmt::format("{} = add {}, {} : index", q, p, pick(5)));
              break;
            case 3:
              line(fmt::format("{} = sub {}, {} : index", q, p, pick(3)));
              break;
            case 4:
              line(fmt::format("{} = div {}, 2 : index", q, p));
              break;
            default:
              line(fmt::format("{} = min {}, {} : index", q, leaf(), leaf()));
          }
          line("yield " + q);
          line("}");
          index_ = outer, words_ = outer_words;
          index_.push_back(r);
          break;
        }
        default:
          touch();
      }
    }
  }

  std::mt19937_64 random_;
  std::string text_;
  u32 next_ = 0;
  std::vector<std::string> index_, words_;
};

TEST(ContractProperty, AcceptedLaunchesStayInBounds) {
  u32 accepted = 0, total = 0, touching = 0;
  const char* wanted = std::getenv("IRON_CONTRACT_SEEDS");  // more of them in ./test --full
  const u64 seeds = wanted ? std::strtoull(wanted, nullptr, 10) : 3000;
  for (u64 seed = 1; seed <= seeds; ++seed) {
    const std::string text = Generator(seed).kernel();
    const ir::Kernel k = ir::parse(text);
    const Contract c = derive(k);
    std::mt19937_64 random(seed * 7919);
    const auto pick = [&](u32 n) { return static_cast<u32>(random() % n); };
    const LaunchGeometry g{{1 + pick(3), 1, 1}, {32 * (1 + pick(3)), 1, 1}, 0};
    std::vector<u32> idx(16);
    for (auto& v : idx) v = pick(4) ? pick(64) : static_cast<u32>(random());
    std::vector<f32> y(g.groups.count() * g.threads.count());
    // First with room to spare, then with the least that the contract accepts.
    std::vector<LaunchArg> args{{reinterpret_cast<void*>(u64{1} << 44), u64{1} << 40, 0},
                                exec::buffer(idx),
                                exec::buffer(y),
                                exec::scalar(pick(50)),
                                exec::scalar(pick(50))};
    const Verdict roomy = evaluate(c, g, args);
    ++total;
    if (!roomy.problems.empty() || roomy.needs.extents[0] > (1u << 22)) continue;
    ++accepted;
    args[0].bytes = roomy.needs.extents[0];
    ASSERT_TRUE(check(c, g, args).empty()) << "seed " << seed << ": an exact fit is refused\n" << text;
    u64 refused = 0, fits = roomy.needs.extents[0] / 4 + 1;  // counted one up, so that nothing at all is refused
    while (fits - refused > 1) {
      const u64 middle = (fits + refused) / 2;
      args[0].bytes = (middle - 1) * 4;
      (check(c, g, args).empty() ? fits : refused) = middle;
    }
    std::vector<f32> x(fits - 1);
    args[0] = exec::buffer(x);
    if (x.empty()) args[0].data = nullptr;
    const Verdict exact = evaluate(c, g, args);
    ASSERT_TRUE(exact.problems.empty()) << exact.problems[0].render() << text;
    exec::Options options;
    options.index32 = exact.needs.index_width == IndexWidth::i32;
    const auto result = exec::run(k, g, args, options);
    for (const auto& f : result.findings)
      ASSERT_TRUE(f.code != exec::code::out_of_bounds && f.code != exec::code::runaway &&
                  f.code != exec::code::index_overflow && f.code != exec::code::bad_step &&
                  f.code != exec::code::misaligned)
          << "seed " << seed << ": accepted, yet\n"
          << f.render() << text << "n = " << args[3].scalar << " m = " << args[4].scalar;
    touching += !x.empty();
  }
  std::printf("%u of %u launches accepted, %u of them read x\n", accepted, total, touching);
  EXPECT_GT(accepted, total / 20);
  EXPECT_GT(touching, total / 50);
}

// Precision where exactness is provable: the interpreter itself goes out of bounds with one element less.
TEST(ContractProperty, ExtentsOfAffineKernelsAreTight) {
  std::mt19937_64 random(5);
  const auto pick = [&](u32 n) { return static_cast<u32>(random() % n); };
  for (int round = 0; round < 300; ++round) {
    const u32 a = pick(4), b = pick(40), c = pick(4), d = pick(10), step = 1 + pick(5);
    const std::string text = fmt::format(R"(kernel @affine(%x: in f32, %y: out f32, %n: scalar u32) threadgroup exact {{
  %t = thread_id : index
  %g = group_id<x> : index
  %m = cast %n : index
  %at = mul %t, {} : index
  %bg = mul %g, {} : index
  %s0 = add %at, %bg : index
  %o = grid_thread_id : index
  %r = for %i = 0 to %m step {} carry(%p = {}) : index {{
    %ci = mul %i, {} : index
    %s1 = add %s0, %ci : index
    %s2 = add %s1, %p : index
    %v = load %x[%s2] : f32
    store %y[%o], %v
    %q = add %p, 3 : index
    yield %q
  }}
}}
)",
                                         a, b, step, d, c);
    const ir::Kernel k = ir::parse(text);
    const Contract contract = derive(k);
    const LaunchGeometry g{{1 + pick(3), 1, 1}, {1 + pick(70), 1, 1}, 0};
    std::vector<f32> y(g.groups.count() * g.threads.count());
    std::vector<LaunchArg> args{
        {reinterpret_cast<void*>(u64{1} << 44), u64{1} << 40, 0}, exec::buffer(y), exec::scalar(1 + pick(20))};
    const Verdict v = evaluate(contract, g, args);
    ASSERT_TRUE(v.problems.empty()) << v.problems[0].render() << text;
    std::vector<f32> x(v.needs.extents[0] / 4);
    args[0] = exec::buffer(x);
    ASSERT_FALSE(exec::run(k, g, args).has(exec::code::out_of_bounds)) << text;
    args[0].bytes -= 4;
    ASSERT_TRUE(exec::run(k, g, args).has(exec::code::out_of_bounds)) << text;
  }
}

}  // namespace
}  // namespace iron::analysis
