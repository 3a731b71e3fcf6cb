// The state of a running launch: threadgroups in flight, their simdgroups, memory with its shadow, findings.
#pragma once

#include <array>
#include <memory>
#include <random>
#include <set>
#include <tuple>

#include "exec/program.h"
#include "exec/shadow.h"

namespace iron::exec {

class Tier;
struct TierGroup;

/// An open branch or loop of a simdgroup.
struct Frame {
  u64 saved = 0;  ///< mask to restore
  u64 then_ = 0, else_ = 0;
  u64 trip = 0;
  bool else_first = false;
};

struct Simdgroup {
  u32 index = 0;
  Group* group = nullptr;
  u64 exists = 0;  ///< lanes that are threads
  u64 mask = 0;    ///< lanes that run now
  u32 active = 0;  ///< their number
  u32 pc = 0;
  u32 simd_epoch = 0;
  Status status = Status::next;
  std::vector<Frame> frames;
  std::unique_ptr<std::byte[]> storage;
  std::byte* regs = nullptr;
  std::vector<u8> arrays;               ///< element by element, each `width` lanes
  std::vector<u64> written;             ///< a bit a lane for each element of the thread arrays
  std::unordered_map<u32, u32> visits;  ///< of assume_uniform over the threadgroup

  void set_mask(u64 m) { mask = m, active = static_cast<u32>(std::popcount(m)); }
};

/// An accumulator's elements, as bits of its type.
struct TileState {
  std::vector<u64> bits;
  std::vector<u8> written;
};

/// A copy that a thread has started and not yet waited for.
struct Copying {
  u32 instr = 0, mem = 0, lane = 0;
  u64 element = 0, number = 0;  ///< of its group among the thread's
  std::array<u8, 16> bytes{};
};
/// What one thread has in flight.
struct CopyQueue {
  u64 closed = 0;  ///< groups
  std::vector<Copying> started;
};

struct Group {
  u32 id = 0;  ///< flat, in the grid
  u32 x = 0, y = 0, z = 0;
  u32 epoch = 0;    ///< barriers passed
  u32 running = 0;  ///< simdgroups not done
  bool started = false;
  std::vector<Simdgroup> simdgroups;
  std::vector<std::vector<u8>> shared;
  std::vector<Shadow> shared_shadow;
  std::vector<TileState> tiles;           ///< of the whole group, then those of each simdgroup
  Clock common;                           ///< known to all threads
  std::unordered_map<u32, Clock> own;     ///< acquired by one thread since the last barrier
  std::unordered_map<u32, Clock> fenced;  ///< what a release fence published, until the thread's next atomic writes
  std::unordered_map<u32, Clock> seen;    ///< what relaxed reads saw, until an acquire fence
  std::unordered_map<u32, std::vector<u64>> uniform;  ///< values of assume_uniform
  std::unordered_map<u32, CopyQueue> copies;          ///< of a thread
  std::shared_ptr<TierGroup> tier;                    ///< of a kernel of the Hopper tier
};

struct Buffer {
  u8* data = nullptr;
  u64 bytes = 0;
  u32 base_misalign = 0;  ///< of the address, modulo 256
  bool tracked = false;
  Shadow shadow;
};

/// Where a memory operand lies for one simdgroup.
struct Place {
  u8* base = nullptr;
  u64 count = 0;
  u64 offset = 0;  ///< bytes from the root, for the shadow
  u32 base_misalign = 0;
  Shadow* shadow = nullptr;
};

class Machine {
 public:
  Machine(const ir::Kernel& k, const LaunchGeometry& g, std::span<const LaunchArg> args, const Options& options);
  Result run();

  const ir::Kernel& kernel;
  const LaunchGeometry geometry;
  const Options options;
  const u32 width;
  const u32 threads;
  Program program;
  std::vector<u64> scalars;
  std::vector<Buffer> buffers;
  std::vector<TensorShape> tensors;  ///< of parameters that are tensors
  std::shared_ptr<Tier> tier;        ///< null for a kernel without ops of the Hopper tier
  Result result;
  u32 time = 0;
  std::unordered_map<const u8*, Release> releases;
  u64 tickets_started = 0;

  // --- findings
  struct Finding {
    std::string_view code;
    std::string message;
    std::string fix;
    Severity severity = Severity::error;
  };
  /// True the first time that a pair of lines has that finding.
  bool fresh(std::string_view code, ir::OpId op, ir::OpId other = ir::none);
  void report(Finding f, ir::OpId op, ir::OpId other = ir::none, std::string_view other_does = {});
  std::string thread_name(const Simdgroup& s, u32 lane) const;
  std::string name_of(const Touch& t) const;  ///< of who touched
  std::string memory_name(const Mem& m) const;
  ir::OpId op_of(u32 instr) const { return program.code[instr].op; }

  // --- memory
  Place place(Simdgroup& s, const Mem& m);
  Touch touch(const Simdgroup& s, const Instr& in, u32 lane, bool atomic = false) const {
    return {s.group->id, time, Touch::make_who(index_of(in), s.index * width + lane, atomic),
            s.group->epoch << 10 | (s.simd_epoch & 1023u)};
  }
  u32 index_of(const Instr& in) const { return static_cast<u32>(&in - program.code.data()); }
  void note_read(const Simdgroup& s, const Instr& in, const Mem& m, Shadow& shadow, u64 byte, u32 size, Touch now,
                 bool keep = true);
  void note_write(const Simdgroup& s, const Instr& in, const Mem& m, Shadow& shadow, u64 byte, u32 size, Touch now);
  bool ordered(const Group& g, const Touch& before, const Touch& now) const;
  void race(const Mem& m, u64 byte, const Touch& before, const Touch& now, std::string_view before_does,
            std::string_view now_does);
  void out_of_bounds(const Simdgroup& s, const Instr& in, const Mem& m, u32 lane, i64 at, u64 count,
                     std::string_view verb);
  void misaligned(const Simdgroup& s, const Instr& in, const Mem& m, u32 lane, i64 at, u32 align);
  void uninitialised(const Instr& in, const Mem& m, u64 element, std::string who);
  void passed_barrier(Group& g);
  /// Reports an access to what a copy is still to fill.
  void check_arrived(const Mem& m, const Shadow& shadow, u64 byte, u32 size, const Touch& now, std::string_view does);
  /// Reports the copies that an ended threadgroup never waited for.
  void end_copies(Group& g);

  bool backwards() const { return options.schedule == Schedule::reverse; }
  bool stop = false;  ///< enough findings

 private:
  void start_group(Group& g, u32 id);
  /// Lets Options::accepts see what an ended threadgroup wrote.
  void show_written();
  u64 start_groups();
  void prepare(Group& g);
  void set_presets(Group& g);
  void preset(Simdgroup& s, const Preset& p);
  bool run_pass(u64& progress);
  void advance(Simdgroup& s, u64 budget, u64& progress);
  void meet(Group& g, u64& progress);
  void deadlock();
  void check_overlaps(std::span<const LaunchArg> args);

  std::vector<std::unique_ptr<Group>> resident_;
  std::vector<u32> order_;  ///< of the groups
  u32 next_group_ = 0;
  std::mt19937_64 random_;
  std::set<std::tuple<std::string, std::string, std::string>> seen_;
};

template <class T>
T* reg(const Simdgroup& s, u32 offset) {
  return reinterpret_cast<T*>(s.regs + offset);
}

/// Calls f(lane) for each lane of a mask, from the last one where `backwards`.
template <class F>
void for_lanes(u64 mask, bool backwards, F&& f) {
  if (!backwards) {
    for (u64 m = mask; m; m &= m - 1) f(static_cast<u32>(std::countr_zero(m)));
  } else {
    for (u64 m = mask; m;) {
      const u32 lane = 63u - static_cast<u32>(std::countl_zero(m));
      f(lane);
      m &= ~(u64{1} << lane);
    }
  }
}

/// The lanes whose byte is odd: booleans as a mask.
inline u64 odd_lanes(const u8* v, u32 width) {
  u64 mask = 0;
  for (u32 l = 0; l < width; l += 4) {
    u32 four;
    std::memcpy(&four, v + l, 4);
    mask |= u64{((four & 0x01010101u) * 0x01020408u) >> 24} << l;
  }
  return mask;
}
/// The bits of one element of a register, zero-extended, and setting them.
inline u64 lane_bits(const Simdgroup& s, u32 offset, u32 size, u32 at) {
  u64 bits = 0;
  std::memcpy(&bits, s.regs + offset + u64{at} * size, size);
  return bits;
}
inline void set_lane_bits(const Simdgroup& s, u32 offset, u32 size, u32 at, u64 bits) {
  std::memcpy(s.regs + offset + u64{at} * size, &bits, size);
}
/// Copies a register's lanes under a mask.
void masked_copy(const Simdgroup& s, u32 to, u32 from, u32 size, u32 elements, u32 width, u64 mask);

// Handlers of the other files.
Handler memory_handler(ir::Opcode code, u32 size, ir::Space space);
Handler copy_handler(ir::Opcode code);  ///< null for other ops
struct ControlHandlers {
  Handler if_begin, then_end, else_end, loop_begin, loop_head, loop_end, end, copy;
};
const ControlHandlers& control_handlers();
/// Simdgroup and threadgroup ops; sets `fn`, and `meet` where the whole group takes part.
bool convergent_handler(const ir::Kernel& k, ir::OpId id, Instr& in);
bool tile_handler(const ir::Kernel& k, ir::OpId id, const Program& p, Instr& in);
bool fact_handler(const ir::Kernel& k, ir::OpId id, Instr& in);
Handler check_index_handler();
Handler check_nan_handler();
Handler bitcast_handler();
/// Reports a convergent op that only some threads of the simdgroup reach.
void check_convergent(Machine& m, const Simdgroup& s, const Instr& in);

}  // namespace iron::exec
