// The frame of a compiled kernel: arguments, the loop over threadgroups, scratch.
#include "cpu/lower.h"

#include <fmt/format.h>

#include "cpu/lowering.h"
#include "cpu/tiles.h"

namespace iron::cpu {

using ir::Opcode;

Lowering::Lowering(const ir::Kernel& k, Dim3 threads, Code& code, bool stream, Lowered& out)
    : k_(k),
      threads_(threads),
      count_(static_cast<u32>(threads.count())),
      lanes_(code.target().lanes),
      c_(code),
      math_(code),
      out_(out),
      stream_(stream),
      uniformity_(k),
      affine_(k),
      users_(ir::use_lists(k)),
      structural_(k.op_capacity(), false),
      lockstep_(k.op_capacity(), false),
      tiles_(std::make_unique<Tiles>(*this)) {}
Lowering::~Lowering() = default;

void Lowering::run() {
  if (count_ == 0 || count_ > 1024)
    fail("CPU04", ir::none, fmt::format("{} threads in a threadgroup; the CPU device runs 1 to 1024", count_),
         "choose a smaller threadgroup");
  bool lengths = false;
  k_.walk([&](OpId id) {
    const auto& i = k_.info_of(id);
    out_.waits |= i.has(ir::Waits) || k_.op(id).code == Opcode::Ticket;
    lengths |= k_.op(id).code == Opcode::Length;
    const bool lane_op = i.has(ir::Convergent) && k_.op(id).code != Opcode::Barrier &&
                         k_.op(id).code != Opcode::SimdBarrier && k_.op(id).code != Opcode::Ticket;
    if (lane_op) {
      out_.needs_simdgroups = true;
      if (count_ % 32)
        fail("CPU04", id, fmt::format("{} needs whole simdgroups, but the threadgroup has {} threads", i.text, count_),
             "launch a multiple of 32 threads");
    }
  });

  std::vector<BodyParam> params;
  for (std::size_t i = 0; i < k_.params.size(); ++i) {
    const auto& p = k_.params[i];
    params.push_back(
        {p.is_buffer() ? Num::ptr : num_of(p.elem), static_cast<u32>(i), p.kind == ir::ParamKind::in, true});
  }
  u32 slot = static_cast<u32>(params.size());
  std::vector<std::pair<u32, u32>> length_params;
  for (u32 i = 0; i < k_.params.size(); ++i)
    if (k_.params[i].is_buffer()) {
      if (lengths) length_params.emplace_back(i, static_cast<u32>(params.size())), params.push_back({Num::i64, slot});
      ++slot;
    }
  const std::size_t geometry = params.size();
  for (u32 i = 0; i < 4; ++i) params.push_back({Num::i64, slot++});
  out_.words = slot;
  c_.begin(params);
  for (std::size_t i = 0; i < k_.params.size(); ++i) params_.push_back(c_.param(i));
  for (const auto& [buffer, at] : length_params) lengths_[buffer] = c_.param(at);
  for (u32 i = 0; i < 3; ++i) groups_[i] = c_.param(geometry + i);
  items_ = c_.param(geometry + 3);

  // Memory that lives as long as the threadgroup.
  plan_packing();
  scratch_bytes_ = scratch_header;
  const u64 padded = (u64{count_} + 31) / 32 * 32;
  k_.walk([&](OpId id) {
    const auto& op = k_.op(id);
    if (op.code == Opcode::SharedNew) {
      const u64 n = op.imm ? op.imm : u64{op.type.rows} * op.type.cols;
      u64 bytes = n * dtype_size(op.type.elem);
      if (const auto it = packing_.find(id); it != packing_.end()) {
        const Packing& p = it->second;
        bytes = sizeof(f32) * (p.panel ? p.step * (p.row / p.panel) : n);
      }
      shared_[id] = scratch(bytes + 64);
    }
    if (op.code == Opcode::ArrayNew) shared_[id] = scratch(op.imm * padded * dtype_size(op.type.elem));
  });
  classify(k_.body());
  plan_next_group();

  Block head = c_.block("groups"), run_block = c_.block("group"), after = c_.block("end"), before = c_.here();
  V first = c_.conv(Conv::zext, Num::i64, c_.first()), last = c_.conv(Conv::zext, Num::i64, c_.last());
  c_.br(head);
  c_.set(head);
  group_linear_ = c_.phi(c_.type(Num::i64));
  c_.incoming(group_linear_, first, before);
  c_.br(c_.cmp(Cmp::ult, group_linear_, last), run_block, after);
  c_.set(run_block);
  bool positions = false;
  k_.walk([&](OpId id) { positions |= k_.op(id).code == Opcode::GroupId || k_.op(id).code == Opcode::GridPos; });
  if (positions) {
    const auto narrow = [&](V v) { return c_.conv(Conv::trunc, Num::i32, v); };
    const auto wide = [&](V v) { return c_.conv(Conv::zext, Num::i64, v); };
    V x = narrow(groups_[0]), y = narrow(groups_[1]), n = narrow(group_linear_);
    V rest = c_.bin(Bin::udiv, n, x);
    group_ids_[0] = wide(c_.bin(Bin::urem, n, x));
    group_ids_[1] = wide(c_.bin(Bin::urem, rest, y));
    group_ids_[2] = wide(c_.bin(Bin::udiv, rest, y));
  }
  group_region(k_.body());
  flush(k_.body(), {}, true);
  c_.incoming(group_linear_, c_.bin(Bin::add, group_linear_, c_.i64(1)), c_.here());
  c_.br(head);
  c_.set(after);
  if (stream_) c_.sfence();
  c_.finish();
  out_.scratch_bytes = scratch_bytes_;
}

Lowered lower(const ir::Kernel& kernel, Dim3 threads, Code& code, bool stream) {
  Lowered out;
  Lowering(kernel, threads, code, stream, out).run();
  return out;
}

void argument_words(const ir::Kernel& kernel, const LaunchGeometry& geometry, std::span<const LaunchArg> args,
                    std::vector<u64>& words) {
  if (args.size() != kernel.params.size())
    throw Error("LAUNCH01",
                fmt::format("kernel {} takes {} arguments, not {}", kernel.name, kernel.params.size(), args.size()));
  words.clear();
  words.reserve(2 * args.size() + 4);
  for (std::size_t i = 0; i < args.size(); ++i)
    words.push_back(kernel.params[i].is_buffer() ? reinterpret_cast<u64>(args[i].data) : args[i].scalar);
  for (std::size_t i = 0; i < args.size(); ++i)
    if (kernel.params[i].is_buffer()) words.push_back(args[i].bytes);
  words.insert(words.end(), {geometry.groups.x, geometry.groups.y, geometry.groups.z, geometry.items});
}

std::vector<u64> argument_words(const ir::Kernel& kernel, const LaunchGeometry& geometry,
                                std::span<const LaunchArg> args) {
  std::vector<u64> words;
  argument_words(kernel, geometry, args, words);
  return words;
}

}  // namespace iron::cpu
