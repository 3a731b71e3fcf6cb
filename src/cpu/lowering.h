// The state of one kernel's lowering (docs/decisions: the CPU device).
//
// Code exists at two levels. At group level it runs once a threadgroup: uniform values are scalars, varying values that
// outlive a segment lie in packet arrays of the scratch block. A segment runs between two points where threads meet: a
// loop over chunks of a few packets, in which varying values are packets, uniform ones scalars, and masks exist only
// under varying control flow.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "analysis/affine.h"
#include "analysis/uniformity.h"
#include "cpu/arith.h"
#include "cpu/lower.h"
#include "ir/kernel.h"

namespace iron::cpu {

using ir::OpId;
using ir::RegionId;

/// What one packet holds of a value: a scalar (all lanes), a vector, or an index whose lane l is v + l * stride.
struct Part {
  V v = nullptr;
  V stride = nullptr;
};

/// A value in a chunk: each component of a vector value in one Part for all packets, or one Part a packet.
struct Val {
  u32 packets = 1;
  std::vector<Part> parts;
  u32 comps() const { return static_cast<u32>(parts.size()) / packets; }
  Part& at(u32 comp, u32 packet) { return parts[comp * packets + (packets == 1 ? 0 : packet)]; }
  const Part& at(u32 comp, u32 packet) const { return parts[comp * packets + (packets == 1 ? 0 : packet)]; }
};

/// The packets that a segment's code works on at once.
struct Chunk {
  u32 width = 1;         ///< packets
  V base = nullptr;      ///< i64: thread id of the first lane
  bool leader = false;   ///< stands for thread 0 alone, all values scalar
  std::vector<V> mask;   ///< a packet of i1 for each packet; empty where all lanes run
  Block head = nullptr;  ///< runs before everything of the chunk; open until the chunk ends
  std::unordered_map<OpId, Val> values;
};

/// Per-thread storage in thread order: component c of thread t lies at (c * padded + t) elements.
struct PacketArray {
  V ptr = nullptr;
  Num num = Num::i32;  ///< as stored: i8 for bools
  u32 comps = 1;
};

struct Memory {
  V base = nullptr;
  DType elem = DType::none;
  ir::Space space = ir::Space::none;
  bool streams = false;       ///< written once and not read: may go past the caches
  bool atomic_plain = false;  ///< only this worker sees it
  u64 length = 0;             ///< elements of a thread's array
  u32 row = 0;                ///< elements a row of a matrix that lies in panels of some columns; 0: lies in order
  u32 panel = 0;              ///< columns of a panel
  u64 panel_step = 0;         ///< elements from one panel to the next
  bool widened = false;       ///< f16 and bf16 that are kept as f32
};

/// How the matrix in a threadgroup array lies where only staging stores and products touch it: the staging is the
/// packing.
struct Packing {
  u32 row = 0, panel = 0;
  u64 step = 0;
  bool widened = false;
};

class Lowering {
 public:
  Lowering(const ir::Kernel& k, Dim3 threads, Code& code, bool stream, Lowered& out);
  ~Lowering();
  void run();

 private:
  friend class Tiles;
  [[noreturn]] void fail(std::string_view code, OpId id, std::string message, std::string fix = {}) const;

  // --- values (values.cpp)
  Val value(OpId id);
  V scalar(OpId id);  ///< of a value that is uniform where it is asked for
  Val uniform(V v) const { return {1, {{v, nullptr}}}; }
  bool is_uniform(const Val& v) const;
  V vector(const Part& p, DType elem);  ///< as a packet
  V plain(const Part& p, DType elem);   ///< a scalar, or a packet
  Val vectors(const Val& v, DType elem, u32 comps);
  Val pure(OpId id);
  Val id_value(OpId id);
  Part index_op(ir::Opcode code, const Part& a, const Part& b, bool& done);
  V lanes_below(V limit);  ///< the mask of the lanes below an i32
  Part compare_index(ir::Opcode code, const Part& a, const Part& b, bool& done);
  Part cast_index(DType to, const Part& a, bool& done);
  V iota(Num n);
  V part_mask(u32 packet) const { return chunk_->mask.empty() ? nullptr : chunk_->mask[packet]; }
  V mask_or_ones(u32 packet);
  V every_lane(V mask);
  V any_lane();  ///< some lane of the chunk runs
  bool rematerialisable(OpId id);

  // --- ranges (ranges.cpp)
  struct FloatRange {
    f64 least, most;
  };
  std::optional<FloatRange> float_range(OpId id, int depth) const;
  std::pair<i64, i64> integer_range(OpId id) const;
  /// A number that every lane's index is a multiple of and that is not negative; 0: not known.
  u64 multiple_of(OpId id, int depth = 0) const;
  /// The first lane of every packet has an index that is a multiple of the lanes and not negative.
  bool starts_aligned(OpId id, int depth = 0) const;
  /// Lane l of the chunk holds a multiple of the chunk's lanes, not negative, plus l.
  bool counts_lanes(OpId id, int depth = 0) const;
  Part split_index(OpId id, const Part& a, bool& done);  ///< an aligned packet divided by a multiple of the lanes

  // --- matrices in threadgroup memory (packing.cpp)
  void plan_packing();
  bool packs(OpId shared, Packing& packing) const;

  // --- memory (memory.cpp)
  Memory memory(OpId id);
  Val load(OpId id);
  void store(OpId id);
  Val load_part(const Memory& m, const Val& index, ir::Type type, u32 align, const std::vector<V>& masks,
                const Val* other);
  /// `in_order`: neighbouring elements are neighbours in memory.
  void store_part(const Memory& m, const Val& index, const Val& value, ir::Type type, u32 align, bool in_order = true);
  V lane_address(const Memory& m, const Part& index, u32 lane);
  std::vector<V> lane_addresses(const Memory& m, const Part& index, V mask);  ///< masked-off lanes: dummy()
  /// Rows of n elements, one a lane, as n packets, and back; empty where no short way is known.
  std::vector<V> rows_to_packets(const std::vector<V>& rows, u32 n, u32 bytes);
  std::vector<V> packets_to_rows(const std::vector<V>& packets, u32 bytes);
  std::vector<V> transpose_blocks(std::vector<V> v);
  bool by_rows(u32 n) const;
  V dummy() { return c_.gep(c_.scratch(), u64{64}); }
  V stored(V v);  ///< bools as bytes
  V loaded(V v, DType elem);
  Val thread_array(OpId id, bool is_store);

  // --- atomics, waits, reports (atomics.cpp)
  Val atomic(OpId id);
  V atomic_one(OpId id, V ptr, V value, V desired, const Memory& m);
  /// A value's number in a lane of the chunk that is known only at run time.
  using LaneValue = std::function<V(V lane)>;
  LaneValue by_lane(const Val& v, u32 comp, DType elem);
  Val each_active(DType elem, bool result, const LaneValue& body);
  void each_bit(V bits, const std::function<void(V index)>& body);  ///< set bits of an i32, in order; index: i64
  V chunk_bits();                                                   ///< of the lanes that run
  void report(OpId id);

  // --- simdgroup ops (simd.cpp)
  Val simd(OpId id);
  V ladder(std::vector<V> packets, ir::ReduceKind kind, DType elem);
  std::vector<V> scan(std::vector<V> packets, ir::ReduceKind kind, DType elem, bool exclusive);
  std::vector<V> shuffle_up(const std::vector<V>& packets, u32 delta, V fill);
  std::vector<V> permute(const std::vector<V>& packets, const std::function<int(int)>& source);
  std::vector<V> packets_of(OpId id, u32 comp = 0);
  V first_active(const Val& v, u32 comp, DType elem);

  // --- control flow within a chunk (chunk.cpp)
  void region(RegionId r);
  void op(OpId id);
  void branch(OpId id);
  void loop(OpId id);
  void varying_loop(OpId id);
  bool trips_alike(OpId id);
  bool worth_a_branch(RegionId r) const;
  void plan_prefetch(OpId loop);  // prefetch.cpp
  bool walks_rows(OpId index, bool& divides) const;
  u32 packets_of_line(const Memory& m) const;
  bool prefetch_rows(OpId index, const Memory& m);
  void plan_next_group();
  void prefetch_next_group(OpId load, const Val& index, const Memory& m);
  Val merge(const Val& a, Block from_a, const Val& b, Block from_b, ir::Type type, Block into);
  Val zeros(ir::Type type, bool vectors);

  // --- runs of ops, packet by packet (packets.cpp)
  struct KeptPart {
    V at = nullptr, stride = nullptr;
    Num num = Num::i32;
    u32 lanes = 0, bytes = 0;
    bool flag = false;  ///< an i1, kept as a wider integer of equal bits
  };
  static constexpr u32 long_run = 192;  ///< weight from which a run of ops is a loop over packets
  bool by_packet(OpId id) const;
  u32 weight(OpId id);
  void in_order(std::span<const OpId> ops);
  void packet_loop(std::span<const OpId> ops);
  KeptPart keep(const Part& like, u32 packets);
  void keep(const KeptPart& k, V packet, V v);
  Part kept(const KeptPart& k, V packet);

  // --- threadgroup level (flow.cpp)
  struct Copy {
    OpId from;
    PacketArray to;
  };
  void classify(RegionId r);
  void group_region(RegionId r);
  void start(RegionId body);
  void flush(RegionId r, const std::vector<Copy>& copies = {}, bool last = false);
  void segment(const std::vector<OpId>& ops, const std::vector<OpId>& escaping, const std::vector<Copy>& copies);
  void chunk_body(const std::vector<OpId>& ops, const std::vector<OpId>& escaping, const std::vector<Copy>& copies,
                  u32 width, V base, bool masked);
  void collective(OpId id);
  void collective_stage(OpId id);
  void group_loop(OpId id);
  void lockstep_loop(OpId id);
  void group_if(OpId id);
  bool available(OpId id) const;
  bool lockstep_start(OpId id);
  V leader_value(OpId id);
  PacketArray packet_array(ir::Type type);
  PacketArray& array_of(OpId id);
  Val load_array(const PacketArray& a, DType elem);
  void store_array(const PacketArray& a, const Val& v, DType elem);
  u64 scratch(u64 bytes);
  std::vector<OpId> escapes(RegionId r, const std::vector<OpId>& ops, bool last) const;
  OpId ancestor_in(RegionId r, OpId id) const;
  std::vector<V> partial_line(V ptr, ir::ReduceKind kind, DType elem);

  const ir::Kernel& k_;
  Dim3 threads_;
  u32 count_;  ///< threads in a threadgroup
  u32 lanes_;  ///< of a packet
  Code& c_;
  Arith math_;
  Lowered& out_;
  bool stream_;  ///< stores go past the caches
  analysis::Uniformity uniformity_;
  analysis::Affine affine_;
  std::vector<std::vector<OpId>> users_;
  std::vector<bool> structural_, lockstep_;
  std::unordered_map<OpId, Val> group_;
  std::unordered_map<OpId, PacketArray> arrays_;
  std::unordered_map<OpId, int> remat_;
  std::unordered_map<OpId, u64> shared_;
  std::unordered_map<OpId, Packing> packing_;  ///< by threadgroup array
  std::unordered_map<OpId, V> partials_;
  std::unordered_map<OpId, OpId> next_group_;  ///< loads that fetch for the next threadgroup, by its id
  std::unordered_map<V, V> mask_limits_;       ///< masks of the lanes below a number
  std::unordered_map<OpId, i64> ahead_;        ///< loads that prefetch, and how many bytes ahead
  std::vector<OpId> pending_;
  Chunk* chunk_ = nullptr;
  std::unordered_set<OpId> scan_prefix_;                  ///< scans whose arrays lack the simdgroups before
  std::pair<OpId, V> lockstep_round_{ir::none, nullptr};  ///< induction variable, its value in thread 0
  V limit_ = nullptr;                                     ///< threads below this id run; null: all
  bool masked_only_ = false;                              ///< no unmasked copy of segments
  u64 scratch_bytes_ = 0;
  std::vector<V> params_;  ///< by parameter
  std::unordered_map<u32, V> lengths_;
  V groups_[3] = {}, items_ = nullptr, group_ids_[3] = {}, group_linear_ = nullptr;
  std::unique_ptr<class Tiles> tiles_;
};

}  // namespace iron::cpu
