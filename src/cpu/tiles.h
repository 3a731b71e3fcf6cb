// Tile ops in software: register blocks of fma, k ascending (R4).
#pragma once

#include <functional>
#include <unordered_map>

#include "cpu/lowering.h"
#include "ir/tile_map.h"

namespace iron::cpu {

class Tiles {
 public:
  explicit Tiles(Lowering& l);
  /// Rows and packets of a register block, and the columns of a panel, for accumulators of that many bytes.
  static u32 block_rows(const CpuTarget& t) { return t.registers >= 32 || t.lanes == 8 ? 6 : 4; }
  static u32 block_packets(const CpuTarget& t, u32 element) {
    return element == 8 ? 1 : t.registers >= 32 ? 4 : t.lanes == 8 ? 2 : 1;
  }
  static u32 panel(const CpuTarget& t, u32 element) { return block_packets(t, element) * t.lanes; }
  /// An op of a tile that the whole threadgroup owns, once for the threadgroup.
  void collective(OpId id);
  /// An op in a chunk, for each lane or once for its simdgroup; true if it has a result.
  bool op(OpId id, Val& result);

 private:
  struct Tile {
    ir::TileMap map;
    DType accumulator = DType::f32, input = DType::f32, chain = DType::f32;
    bool whole_group = true;
    u64 at = 0, bytes = 0;  ///< in scratch; of one simdgroup
    u32 packets = 0;        ///< of a row
    u32 stride = 0;         ///< elements from row to row, a whole number of packets
    u32 element = 4;        ///< bytes
  };
  struct Operand {
    V base = nullptr;
    V row = nullptr, col = nullptr;  ///< bytes from one row to the next, one column to the next
    V panel = nullptr;               ///< bytes a column, where columns are counted in whole blocks
  };
  const Tile& tile(OpId id);
  V base(const Tile& t);
  void act(OpId id);
  void zero(const Tile& t);
  void multiply(OpId id, const Tile& t);
  void block(const Tile& t, V acc, const Operand& a, const Operand& b, V row, V col, u32 rows, u32 packets, u32 depth);
  void transfer(OpId id, const Tile& t, bool store);
  Operand packed(const Tile& t, const Memory& m, V offset, V stride, bool transposed, u32 rows, u32 cols, u64 scratch,
                 u32 panel);
  Val element(OpId id, const Tile& t);
  void each(V count, const std::function<void(V)>& body);
  void each(u32 count, const std::function<void(V)>& body) { each(l_.c_.i64(count), body); }
  V to_chain(const Tile& t, DType from, V v);
  V from_accumulator(const Tile& t, DType to, V v);
  Num num(const Tile& t) const { return num_of(t.chain); }

  Lowering& l_;
  Code& c_;
  Arith& math_;
  std::unordered_map<OpId, Tile> tiles_;
  std::unordered_map<OpId, u64> panels_;
};

}  // namespace iron::cpu
