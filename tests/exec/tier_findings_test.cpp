// What the interpreter says of tier kernels that are wrong: both places, what is wrong, the remedy.
#include "helpers.h"
#include "tier_kernels.h"

namespace iron::exec::tier {
namespace {

enum class Fault : u32 {
  none,
  fragment_set,      ///< the fragment that a product reads is set before settle
  read_in_flight,    ///< the accumulator is read before settle
  not_cleared,       ///< the first product adds to nothing
  outside_slot,      ///< a view beyond its slot
  plain_write,       ///< the product reads what threads wrote: no proxy fence
  put_then_release,  ///< a slot that was written by threads goes back without a fence
  never_settled,     ///< a product is in flight where the role ends
  turn_twice,        ///< a turn is entered again
  uneven_barrier,    ///< one simdgroup does not come to the role's barrier
  trips              ///< the loading role runs one trip less
};

/// o = (x + x / 2) * w for 64 x 64 blocks that pass a ring: twice, with a fragment as the left operand.
struct Halves {
  static constexpr Mode mode = Mode::Threadgroup;
  TensorMap<f16> x, w;
  TensorMapOut<f16> o;
  Scalar<u32> blocks;
  Fault fault = Fault::none;

  void operator()() const {
    const auto is = [&](Fault f) { return fault == f; };
    Shared<f16> sx{2, {64, 64}, Swizzle::b128}, sw{1, {64, 64}, Swizzle::b128}, so{2, {64, 64}, Swizzle::b128};
    const Pipeline px{2, "load", "math"}, pw{1, "load", "math"};
    const Turns turn{"math"};
    for (auto& role : roles({{"load", 1, Regs{40}, Issue::one}, {"math", 2, Regs{232}}})) {
      if (role.is("load")) {
        auto to_x = px.producer(), to_w = pw.producer();
        const auto s = to_w.acquire();
        w.load(s, sw[s], {0u, 0u});
        for (auto b : range(is(Fault::trips) ? blocks - 1u : blocks + 0u)) {
          const auto t = to_x.acquire();
          x.load(t, sx[t], {0u, b * 64u});
        }
      } else {
        auto from_x = px.consumer(), from_w = pw.consumer();
        const auto wg = role.index();
        const auto weights = from_w.wait();
        Acc<f32> one{64, 64}, sum{64, 64}, two{64, 64};
        one.clear();
        FragVar<f16> half{64, 64};
        half = cast<f16>(one.value() + 0.5f);
        for (auto b : range(blocks)) {
          const auto t = from_x.wait();
          if (is(Fault::plain_write) || is(Fault::put_then_release)) {
            if_(thread_id() == 128u) { sx[t](0u, 0u) = f16(1.0f); }
            role.barrier();
          }
          turn.enter(role);
          if (is(Fault::turn_twice)) turn.enter(role);
          const auto view = is(Fault::outside_slot) ? sx[t].rows(8u, 64) : sx[t].rows(0u, 64);
          if (!is(Fault::put_then_release)) {
            sum.mma(view, sw[weights], is(Fault::not_cleared));
          } else {
            sum.clear();
          }
          two.mma(half, sw[weights], false);
          turn.leave(role);
          if (!is(Fault::read_in_flight)) settle(is(Fault::fragment_set) ? 1 : 0);
          from_x.release();
          const auto stage = so[wg];
          reclaim(stage);
          const auto first = sum.value();
          put(stage, cast<f16>(is(Fault::fragment_set) ? first : first + two.value()));
          o.store(stage, {wg * 64u, b * 64u});
          half = cast<f16>(one.value() + 0.5f);
          if (is(Fault::uneven_barrier)) {
            if_(simdgroup_id() != 7u) { role.barrier(); }
          }
          if (is(Fault::read_in_flight)) settle(0);
        }
        if (is(Fault::never_settled)) one.mma(sw[weights], sw[weights], false);
        from_w.release();
      }
    }
  }
};

Result run_halves(Fault fault, Schedule schedule = Schedule::program, LaunchGeometry g = geometry(1, 384)) {
  constexpr u32 blocks = 4;
  std::vector<f16> x(blocks * 64 * 64, f16(0.5f)), w(64 * 64, f16(0.25f)), o(blocks * 64 * 128);
  const Halves k{{x, {64, blocks * 64}}, {w, {64, 64}}, {o, {128, blocks * 64}}, blocks, fault};
  const auto recorded = record(k, "halves");
  std::vector<LaunchArg> args;
  for (const auto& a : arguments(k)) args.push_back(a.launch_arg(a.buffer.data));
  Result r = run(*recorded, g, args, {.schedule = schedule});
  for (const f16 v : o)
    if (fault == Fault::none) EXPECT_EQ(static_cast<f32>(v), 64 * 0.25f * (0.5f + 0.5f));
  return r;
}

class Faults : public ::testing::TestWithParam<Schedule> {};
INSTANTIATE_TEST_SUITE_P(All, Faults, ::testing::ValuesIn(all_schedules));

TEST_P(Faults, NoneIsClean) {
  const auto r = run_halves(Fault::none, GetParam());
  EXPECT_TRUE(r.clean()) << r.render();
}
TEST_P(Faults, EachIsFoundByItsCode) {
  const std::pair<Fault, std::string_view> faults[] = {{Fault::fragment_set, code::in_flight},
                                                       {Fault::read_in_flight, code::in_flight},
                                                       {Fault::not_cleared, code::uninitialised},
                                                       {Fault::outside_slot, code::out_of_bounds},
                                                       {Fault::plain_write, code::race},
                                                       {Fault::put_then_release, code::race},
                                                       {Fault::never_settled, code::in_flight},
                                                       {Fault::turn_twice, code::turn},
                                                       {Fault::uneven_barrier, code::barrier_mismatch},
                                                       {Fault::trips, code::deadlock}};
  // Also where other findings come with it: the message that the fault is about.
  EXPECT_NE(run_halves(Fault::fragment_set, GetParam()).render().find("is set while a product reads it"),
            std::string::npos);
  for (const auto& [fault, code] : faults) {
    const auto r = run_halves(fault, GetParam());
    EXPECT_TRUE(r.has(code)) << static_cast<u32>(fault) << "\n" << r.render();
  }
}

TEST(TierFindings, NameBothPlacesAndTheRemedy) {
  const auto text = run_halves(Fault::plain_write).render();
  EXPECT_NE(text.find("written by thread 128 of threadgroup 0 and read by a product of warpgroup"), std::string::npos)
      << text;
  EXPECT_NE(text.find("nothing orders the two across the proxies"), std::string::npos) << text;
  EXPECT_NE(text.find("no proxy fence lies between"), std::string::npos) << text;
  EXPECT_NE(text.find("written here: store"), std::string::npos) << text;
  EXPECT_NE(run_halves(Fault::trips).render().find("nothing loads slot 1 again"), std::string::npos);
}

TEST(TierFindings, LaunchesThatCannotBe) {
  EXPECT_THROW(run_halves(Fault::none, Schedule::program, geometry(1, 256)), Error);
  const auto cluster = cluster_case();
  f32 error = 0;
  std::vector<f32> x(3 * 64), y(3);
  EXPECT_THROW(launch(*cluster.kernel, geometry(3, 64), {buffer(x), buffer(y)}), Error);
  const auto copy = copy_case(16, 64, 1);
  std::vector<f16> in(16 * 64), out(16 * 64);
  LaunchArg from = buffer(in), to = buffer(out);
  from.tensor = to.tensor = {2, {64, 16}, {2, 128}};
  EXPECT_TRUE(launch(*copy.kernel, copy.geometry, {from, to, scalar(16u), scalar(64u)}).clean());
  from.tensor = {3, {64, 4, 4}, {2, 128, 512}};
  EXPECT_THROW(launch(*copy.kernel, copy.geometry, {from, to, scalar(16u), scalar(64u)}), Error);
  from.tensor = {2, {64, 17}, {2, 128}};
  EXPECT_THROW(launch(*copy.kernel, copy.geometry, {from, to, scalar(16u), scalar(64u)}), Error);
  (void)error;
}

// Look-back between the threadgroups of clusters: the same clocks carry what a release publishes.
TEST_P(Faults, LookBackNeedsReleaseInClustersToo) {
  for (const bool release : {true, false}) {
    const auto k = kernel("%sums: inout f32, %flag: inout u32, %count: inout u32", R"(
    cluster.sync<2>
    %t = thread_id : index
    %k = ticket %count[0] : index
    %leader = eq %t, 0 : bool
    if %leader {
      %later = gt %k, 0 : bool
      %before = sub %k, 1 : index
      %prefix = if %later : f32 {
        %f = wait_until<eq, grid> %flag[%before], 255:u32, 1:u32 : u32
        %p = load %sums[%before] : f32
        yield %p
      } else {
        yield 0.0:f32
      }
      %up_to = add %prefix, 1.0:f32 : f32
      store %sums[%k], %up_to
      atomic.store<exchange, )" + std::string(release ? "release" : "relaxed") +
                                                                                       R"(, grid> %flag[%k], 1:u32
    }
  )");
    std::vector<f32> sums(6);
    std::vector<u32> flag(6), count(1);
    const auto r = launch(k, geometry(6, 32), {buffer(sums), buffer(flag), buffer(count)}, {.schedule = GetParam()});
    EXPECT_EQ(r.clean(), release) << r.render();
    EXPECT_EQ(r.has(code::race), !release);
    for (u32 i = 0; i < 6; ++i) EXPECT_EQ(sums[i], static_cast<f32>(i + 1));
  }
}

}  // namespace
}  // namespace iron::exec::tier
