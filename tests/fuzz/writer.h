// The state of one kernel being generated: what is in scope, who owns which memory, how far control is uniform.
#pragma once

#include <initializer_list>
#include <vector>

#include "ir/builder.h"
#include "random.h"
#include "subject.h"

namespace iron::fuzz {

using ir::Opcode;
using ir::OpId;
using ir::Scope;
using ir::Type;

/// A value with what is known of it: the set of threads over which it is equal, and for `index` its range.
struct Value {
  OpId id = ir::none;
  Type type;
  Scope scope = Scope::grid;
  i64 lo = 0, hi = -1;
  bool ranged() const { return lo <= hi; }
};

/// Memory that the threads of a group pass to each other. Between two barriers either every thread reads and writes its
/// own slot, or all read everything, or all update everything by one kind of atomic.
struct Exchange {
  enum State : u8 { own, readable, atomic };
  struct View {
    OpId memory = ir::none;
    DType elem = DType::none;
    u64 count = 0;  ///< elements of the group
    u32 per = 0;    ///< elements of a thread's slot; 0: only for reading everything
  };
  std::vector<View> views;
  bool global = false;
  State state = own;
  u8 permutation = 0;  ///< 0: the thread's own id; 1: counted from the last; else xor with this less one
  ir::AtomicKind kind = ir::AtomicKind::add;
};

struct Input {
  OpId memory = ir::none;
  DType elem = DType::none;
  u64 count = 0;
};
/// An output, or memory that each thread keeps to itself; slots of `per` elements.
struct Slots {
  OpId memory = ir::none;
  DType elem = DType::none;
  u32 per = 0;
  bool readable = false;
};
struct Counters {
  OpId memory = ir::none;
  DType elem = DType::none;
  u64 count = 0;
  ir::AtomicKind kind = ir::AtomicKind::add;
};

class Writer {
 public:
  explicit Writer(u64 seed);
  Subject run();

 private:
  // --- the kernel as a whole (generator.cpp)
  void choose_launch();
  void add_params();
  void add_ids();
  void add_shared();
  void finish();
  DType random_dtype();
  Type random_type();

  // --- values (values.cpp)
  Value push(Value v);
  Value emit(Opcode code, std::span<const Value> operands, u64 imm = 0, Type stated = ir::none_type);
  Value emit(Opcode code, std::initializer_list<Value> operands, u64 imm = 0, Type stated = ir::none_type) {
    return emit(code, std::span<const Value>(operands.begin(), operands.size()), imm, stated);
  }
  Value constant(Type t);
  Value constant_bits(Type t, u64 bits);
  Value const_index(i64 v);
  bool in_scope(Type t, Scope least, Value& out);
  Value value(Type t, Scope least = Scope::lane, int depth = 2);
  Value make(Type t, Scope least, int depth);
  Value make_float(Type t, Scope least, int depth);
  Value make_int(Type t, Scope least, int depth);
  Value make_bool(Type t, Scope least, int depth);
  Value convert(Type t, Scope least, int depth);
  Value reinterpret(Type t, Scope least, int depth);
  Value rearrange(Type t, Scope least, int depth);
  Value shift_amount(Type t, Scope least, int depth);
  Value any_index(Scope least, int depth = 2);
  Value index(i64 lo, i64 hi, Scope least = Scope::lane);

  // --- memory (memory.cpp)
  OpId memory_op(Opcode code, Type stated, std::initializer_list<OpId> operands, u64 imm);
  Value load(OpId memory, DType elem, u8 lanes, const Value& at, u64 imm, Scope most);
  u8 lanes_for(u32 count);
  u64 alignment(DType elem, u8 lanes);
  Value thread_slot(const Exchange& e, const Exchange::View& v, u8 lanes, bool& aligned);
  Value own_slot(u32 per, u8 lanes, bool& aligned);
  Value permuted_thread(u8 permutation);
  void load_input();
  void load_guarded();
  void store_slot(const Slots& s, const Value* given = nullptr);
  void use_slots();
  void use_exchange();
  void use_array();
  void use_counters();
  void own_atomic(OpId memory, DType elem, const Value& at, Scope scope);
  void new_array();
  void fill_exchange(Exchange& e);
  void switch_exchanges();
  void restore_exchanges(const std::vector<Exchange>& before);

  // --- control, simdgroups, facts (control.cpp)
  void block(int depth, int statements);
  void statement(int depth);
  void branch(int depth);
  void loop(int depth);
  void typed_loop(int depth, OpId& start, OpId& end, OpId& step, Scope& bounds);
  void simd_op();
  void group_op();
  void fact();
  Value give(Type t, Scope least, i64 most);
  void barrier();

  struct Array {
    OpId memory = ir::none;
    DType elem = DType::none;
    u32 count = 0;
  };

  Random random_;
  u64 seed_;
  Subject subject_;
  ir::Kernel& k_;
  ir::Builder build_;
  u32 threads_ = 32, groups_ = 1;
  bool simd_ = true;
  Scope control_ = Scope::grid;
  u32 trips_ = 1;   ///< product of the trip counts around
  int budget_ = 0;  ///< statements left
  int line_ = 0;
  std::vector<Value> values_;
  std::vector<Array> arrays_;
  std::vector<Input> inputs_;
  std::vector<Slots> slots_;
  std::vector<Counters> counters_;
  std::vector<Exchange> exchanges_;
  Value thread_, grid_thread_;
};

}  // namespace iron::fuzz
