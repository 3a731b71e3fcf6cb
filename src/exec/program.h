// A kernel decoded for one simd width: a flat list of instructions over registers that hold one value a lane.
#pragma once

#include <memory>
#include <vector>

#include "exec/exec.h"
#include "exec/tier_plan.h"
#include "ir/op.h"
#include "ir/tile_map.h"

namespace iron::exec {

class Machine;
struct Simdgroup;
struct Group;
struct Instr;

enum class Status : u8 {
  next,        ///< go on with the instruction at pc
  access,      ///< the same, after a memory access: a point where the schedule may switch
  wait,        ///< the condition of a wait does not hold yet
  rendezvous,  ///< stopped until the whole threadgroup has arrived
  collective,  ///< the same for the warpgroup, role or cluster of an op of the Hopper tier
  done,
};
using Handler = Status (*)(Machine&, Simdgroup&, const Instr&);
/// What the threadgroup does once all of its simdgroups have arrived.
using Meeting = void (*)(Machine&, Group&, const Instr&);

/// Registers are byte offsets into the simdgroup's register file; a vector is stored element by element, each `width`
/// lanes.
struct Instr {
  Handler fn = nullptr;
  Meeting meet = nullptr;
  u32 dst = 0, a = 0, b = 0, c = 0, d = 0;
  u32 n = 0;                 ///< lanes times vector elements
  u32 mem = 0;               ///< memory operand
  u32 target = 0;            ///< jump target
  u32 first = 0, count = 0;  ///< copies of a yield, operands of a print or tile op
  u64 imm = 0;
  ir::OpId op = ir::none;
  DType elem = DType::none;    ///< of the result, or of what is stored
  DType source = DType::none;  ///< of the first operand
  u8 lanes = 1;
};

/// Memory named by an op, resolved to its root.
struct Mem {
  ir::Space space = ir::Space::none;
  u32 root = 0;    ///< parameter, shared array or thread array
  u64 offset = 0;  ///< bytes
  u32 size = 1;    ///< bytes of an element
  DType elem = DType::none;
  u64 count = 0;  ///< elements; of buffers only the launch knows
  ir::OpId op = ir::none;
};

struct Copy {
  u32 from = 0, to = 0, size = 0, lanes = 1;
};

/// A value that is set once a threadgroup rather than computed: constants, scalars, ids.
struct Preset {
  ir::OpId op = ir::none;
  u32 reg = 0;
};

struct SharedArray {
  u64 bytes = 0;
  u32 granule_log2 = 3;
  ir::OpId op = ir::none;
  bool filled_by_copies = false;  ///< by copy.async
};
struct ThreadArray {
  u64 count = 0;
  u32 size = 1, offset = 0, first_bit = 0;  ///< into the simdgroup's array bytes and written-masks
};
struct Tile {
  ir::TileMap map;
  DType accumulator = DType::f32, input = DType::f32;
  bool whole_group = true;
  ir::OpId op = ir::none;
};

struct Program {
  const ir::Kernel* kernel = nullptr;
  u32 width = 32;
  std::vector<Instr> code;
  std::vector<u32> operands;  ///< registers, for prints and tile ops
  std::vector<Mem> mems;
  std::vector<Copy> copies;
  std::vector<Preset> presets;
  std::vector<Preset> group_presets;  ///< those that differ from threadgroup to threadgroup
  std::vector<SharedArray> shared;
  std::vector<ThreadArray> arrays;
  std::vector<Tile> tiles;
  std::vector<u32> param_granule_log2;
  std::vector<u32> reg;  ///< of each op
  u32 register_bytes = 0, array_bytes = 0, array_elements = 0;
  u32 preset_bytes = 0;            ///< the presets are registers of these first bytes
  std::shared_ptr<TierPlan> tier;  ///< of a kernel of the Hopper tier
  bool waits = false;              ///< groups may wait for each other
  bool orders = false;             ///< some op acquires or releases
};

/// Decodes for a width and a threadgroup of that many threads. Throws EXEC8x for what the interpreter does not run.
Program decode(const ir::Kernel& kernel, u32 threads, const Options& options);

/// Lane loops of the pure ops (lanes.cpp); null if there is none for that op and type and eval must serve.
Handler pure_handler(ir::Opcode code, DType operand, DType result);
Handler eval_handler();

}  // namespace iron::exec
