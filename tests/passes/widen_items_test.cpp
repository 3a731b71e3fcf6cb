// Widened kernels give the original's bits, whole and ragged, aligned and not; what must not be widened is left alone.
#include "passes/widen_items.h"

#include <gtest/gtest.h>

#include <random>

#include "exec/exec.h"
#include "ir/text.h"

namespace iron::passes {
namespace {
using namespace ir;

constexpr u32 threads = 32;

const char* const add_bf16 = R"(kernel @add(%a: in bf16, %b: in bf16, %c: out bf16) elementwise exact {
  %0 = grid_thread_id : index
  %1 = item_count : index
  %2 = lt %0, %1 : bool
  if %2 {
    %3 = load %a[%0] : bf16
    %4 = load %b[%0] : bf16
    %5 = cast %3 : f32
    %6 = cast %4 : f32
    %7 = add %5, %6 : f32
    %8 = cast %7 : bf16
    store %c[%0], %8
  }
})";

// A branch of its own for each item, a subscript that is computed above the guard, and an update in place.
const char* const branch_in_place = R"(kernel @branch(%x: inout f32, %n: scalar u32) elementwise exact {
  %0 = grid_thread_id : index
  %1 = item_count : index
  %2 = lt %0, %1 : bool
  %3 = add %0, 8:index : index
  if %2 {
    %4 = load %x[%3] : f32
    %5 = gt %4, 0.0:f32 : bool
    %6 = if %5 : f32 {
      %7 = mul %4, %4 : f32
      yield %7
    } else {
      %8 = neg %4 : f32
      yield %8
    }
    store %x[%3], %6
  }
})";

const char* const lanes = R"(kernel @lanes(%x: in f32, %y: out f32) elementwise exact {
  %0 = grid_thread_id : index
  %1 = item_count : index
  %2 = lt %0, %1 : bool
  if %2 {
    %3 = lane_id : index
    %4 = cast %3 : f32
    store %y[%0], %4
  }
})";

const char* const strided = R"(kernel @strided(%x: in f32, %y: out f32) elementwise exact {
  %0 = grid_thread_id : index
  %1 = item_count : index
  %2 = lt %0, %1 : bool
  if %2 {
    %3 = load %x[%0] : f32
    %4 = mul %0, 2:index : index
    store %y[%4], %3
  }
})";

std::vector<std::vector<u16>> run(const Kernel& k, u64 items, u32 items_per_thread, u32 aligned) {
  std::mt19937 random(7);
  std::vector<std::vector<u16>> buffers;
  std::vector<LaunchArg> args;
  buffers.reserve(k.params.size());
  for (const auto& p : k.params) {
    if (!p.is_buffer()) {
      args.push_back({nullptr, 0, aligned});
      continue;
    }
    auto& bytes = buffers.emplace_back((items + 8) * dtype_size(p.elem) / 2, 0xcdcd);
    if (p.kind != ParamKind::out)
      for (auto& half : bytes) half = static_cast<u16>((random() & 0xbfff) % 0x7f00);  // finite as bf16 and as f32
    args.push_back({bytes.data(), bytes.size() * 2, 0});
  }
  const auto groups = static_cast<u32>((items + threads * items_per_thread - 1) / (threads * items_per_thread));
  const auto result = exec::run(k, exec::geometry(groups, threads, items), args);
  for (const auto& f : result.findings) ADD_FAILURE() << f.code << ": " << f.message;
  return buffers;
}

u32 wide(const Kernel& k, Opcode code) {
  u32 count = 0;
  k.walk([&](OpId id) {
    if (k.op(id).code == code) count += unpack<MemoryImm>(k.op(id).imm).align_log2 == 4;
  });
  return count;
}

void same_bits(const char* text, u32 items_per_thread) {
  const Kernel original = parse(text);
  const auto widened = widen_items(original);
  ASSERT_EQ(widened.items_per_thread, items_per_thread);
  ASSERT_EQ(widened.kernel.params.size(), original.params.size() + 1);
  EXPECT_EQ(wide(widened.kernel, Opcode::Store), 1u);
  EXPECT_EQ(print(parse(print(widened.kernel))), print(widened.kernel));
  for (const u64 items : {1u, 7u, 8u, 255u, 256u, 300u, 1024u})
    for (const u32 aligned : {0u, 1u})
      EXPECT_EQ(run(widened.kernel, items, items_per_thread, aligned), run(original, items, 1, aligned))
          << items << " items, aligned " << aligned;
}

TEST(WidenItems, SixteenBitElementsGoByEight) {
  same_bits(add_bf16, 8);
  EXPECT_EQ(wide(widen_items(parse(add_bf16)).kernel, Opcode::Load), 2u);
}

TEST(WidenItems, BranchesStayWithTheirItemAndSubscriptsFollowIt) { same_bits(branch_in_place, 4); }

TEST(WidenItems, LeavesWhatNamesOtherIdsOrScattersItsStores) {
  EXPECT_EQ(widen_items(parse(lanes)).items_per_thread, 1u);
  EXPECT_EQ(widen_items(parse(strided)).items_per_thread, 1u);
}

}  // namespace
}  // namespace iron::passes
