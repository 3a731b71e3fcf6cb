// Runs the body of an elementwise kernel over blocks of values: IR compiled once to an array of instructions, each a
// loop over the block. It knows the base ops that expansions use and shares no code with ir::eval, which it is compared
// with.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "ir/kernel.h"

namespace iron::test {

inline constexpr std::size_t block_size = 512;

class BlockProgram {
 public:
  /// Loads are the inputs, in program order; the single Store's value is the output. All scalar.
  explicit BlockProgram(const ir::Kernel& k);

  /// One block: bits of the inputs, zero-extended to 32 bits, and of the result.
  void run(std::span<const u32* const> inputs, u32* output);

  /// Instructions outside branches, and inside them.
  int cost() const { return cost_; }
  int branch_cost() const { return branch_cost_; }

 private:
  struct Instr {
    ir::Opcode code;
    DType elem, from;                  ///< of the result and of the first operand
    u32 out = 0, a = 0, b = 0, c = 0;  ///< register numbers
    u32 skip = 0;                      ///< If: instructions of the branch to jump over when no lane takes it
  };
  struct alignas(64) Register {
    std::byte bytes[block_size * 8];  ///< as many f32, u32, i32 or 64-bit values; bools are u32
    template <class T>
    T* as() {
      return reinterpret_cast<T*>(bytes);
    }
  };

  void compile(const ir::Kernel& k, ir::RegionId r, bool inside);
  void step(const Instr& i);

  std::vector<Instr> code_;
  std::vector<Register> registers_;
  std::vector<u32> register_of_;
  std::vector<u32> inputs_;
  u32 output_ = 0;
  int cost_ = 0, branch_cost_ = 0;
};

}  // namespace iron::test
