// What is known of integer values at a point of a kernel, for one launch: ranges, linear forms, and the facts of the
// conditions around that point.
#pragma once

#include <span>
#include <vector>

#include "analysis/linear.h"
#include "ir/kernel.h"
#include "ir/launch.h"

namespace iron::analysis {

/// A stack of contexts. Values are defined in program order; push() opens a context, assume() adds to it, pop() forgets
/// it. Every linear form states a value that does not wrap where the value was defined, so facts about forms are facts
/// about integers (R3: index never overflows; where it could, the value is opaque and an access through it is refused).
class Facts {
 public:
  Facts(const ir::Kernel& k, const LaunchGeometry& geometry, std::span<const LaunchArg> args, u32 simd_width);

  // --- values
  void define(ir::OpId v);                                          ///< by its opcode
  void define_range(ir::OpId v, const Range& r);                    ///< opaque: region arguments and results
  void define_linear(ir::OpId v, const Linear& l, const Range& r);  ///< equal to `l`, and also within `r`
  Range range(ir::OpId v);
  Range range(const Linear& l);
  const Linear& linear(ir::OpId v) const { return forms_[form_of_[v]]; }
  Leaf fresh(const Range& r);  ///< a value without an op
  /// An upper bound of a form, sought below `target` with the facts at hand. lower() likewise above.
  Wide upper(const Linear& l, Wide target);
  Wide lower(const Linear& l, Wide target);

  // --- contexts
  struct Mark {
    u32 version;
    std::size_t facts, undo;
    bool dead;
  };
  Mark push();
  void pop(const Mark& m);
  bool dead() const { return dead_; }  ///< the facts contradict each other: no thread gets here
  void assume(ir::OpId condition, bool truth);
  void assume_non_negative(const Linear& l);

  // --- memory
  u64 bytes(ir::OpId memory) const;
  Wide elements(ir::OpId memory) const { return static_cast<Wide>(bytes(memory) / dtype_size(k_.type(memory).elem)); }

 private:
  enum Position : u32 { px, py, pz, gx, gy, gz, positions };
  struct Quotient {  ///< a leaf that is floor(of / by)
    Leaf leaf;
    Linear of;
    Wide by;
  };
  struct Undo {
    Leaf leaf;
    Range before;
  };
  struct Memo {
    u32 version = 0;
    Range range;
  };

  Leaf position(Position p) const { return ops_ + p; }
  Linear position_form(Position p) const;
  Linear thread_form() const;
  Linear group_form() const;
  const Quotient* quotient(Leaf leaf) const;
  Linear quotient_form(const Linear& p, Wide by);
  bool form(ir::OpId v, Linear& out);
  bool arithmetic_form(ir::OpId v, Linear& out);
  Range initial(ir::OpId v);
  Range tree(ir::OpId v);
  Range compare(ir::Opcode code, ir::OpId a, ir::OpId b);
  Range leaf_range(Leaf leaf);
  void set_form(ir::OpId v, const Linear& l);
  void refine(Leaf leaf, const Range& r);
  void propagate(const Linear& l);
  Wide upper(const Linear& l, Wide target, int depth, int& budget);
  bool definitions(Leaf leaf, std::vector<Linear>& out);

  const ir::Kernel& k_;
  const LaunchGeometry& geometry_;
  std::span<const LaunchArg> args_;
  u32 simd_width_;
  u32 ops_;
  std::vector<Range> stored_;
  std::vector<Memo> memo_;
  std::vector<u32> form_of_;
  std::vector<Linear> forms_;
  std::vector<Quotient> quotients_;
  std::vector<Linear> facts_;
  std::vector<Undo> undo_;
  u32 version_ = 1, last_version_ = 1;
  bool dead_ = false;
  u32 nested_selects_ = 0;  ///< selects whose arms are being looked at, each inside the one before
};

/// Signed and unsigned integers and index, one element.
inline bool is_integer(ir::Type t) { return t.is_scalar() && (is_int(t.elem) || t.elem == DType::index); }
/// Whether the range of an op follows from its operands' ranges alone, at any later point too.
bool recomputable(const ir::Kernel& k, ir::OpId v);

}  // namespace iron::analysis
