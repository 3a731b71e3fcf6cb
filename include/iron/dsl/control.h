// Recorded control flow: range-for loops, if_ / else, early exits.
#pragma once

#include <exception>

#include "iron/dsl/value.h"

namespace iron {

/// The loop `for (auto i : range(start, end, step))`: its body is recorded once. Bounds are read once, the step is at
/// least 1, the trip count is fixed before the first trip (R6).
class Range {
 public:
  Range(Use<Index> start, Use<Index> end, Use<Index> step, detail::Loc loc)
      : start_(start.arg), end_(end.arg), step_(step.arg), loc_(loc) {}
  Range(const Range&) = delete;
  Range(Range&& other) noexcept = default;
  ~Range() noexcept(false) {
    if (opened_ && !closed_ && std::uncaught_exceptions() == exceptions_) {
      closed_ = true;
      detail::left_early(token_.depth, "loop", loc_);
    }
  }
  /// Leaves at the head of a trip once the variable is true. The bound stays the trip count.
  Range until(const Var<bool>& done) && {
    until_ = done.slot();
    return std::move(*this);
  }

  struct Sentinel {};
  class Iterator {
   public:
    explicit Iterator(Range* range) : range_(range) {}
    Val<Index> operator*() const { return Val<Index>(range_->token_.induction, range_->loc_); }
    Iterator& operator++() {
      range_->closed_ = !detail::loop_close(range_->token_, range_->loc_);
      return *this;
    }
    bool operator!=(Sentinel) const { return !range_->closed_; }

   private:
    Range* range_;
  };
  Iterator begin() {
    token_ = detail::loop_open(start_, end_, step_, until_, loc_);
    opened_ = true;
    return Iterator(this);
  }
  Sentinel end() const { return {}; }

 private:
  detail::Arg start_, end_, step_;
  detail::Loc loc_;
  detail::Id until_ = detail::no_id;
  detail::LoopToken token_;
  bool opened_ = false, closed_ = false;
  int exceptions_ = std::uncaught_exceptions();
};

inline Range range(Use<Index> start, Use<Index> end, Use<Index> step = 1, detail::Loc loc = detail::Loc::here()) {
  return Range(start, end, step, loc);
}
inline Range range(Use<Index> end, detail::Loc loc = detail::Loc::here()) {
  return Range(Use<Index>(0, loc), end, Use<Index>(1, loc), loc);
}

/// What `if_` expands to; spelled out: `for (bool yes : branch(c)) if (yes) { ... } else { ... }`.
class Branch {
 public:
  Branch(Use<bool> condition, detail::Loc loc) : token_(detail::branch_open(condition.arg, loc)), loc_(loc) {}
  Branch(const Branch&) = delete;
  ~Branch() noexcept(false) {
    if (!done_ && std::uncaught_exceptions() == exceptions_) {
      done_ = true;
      detail::left_early(token_.depth, "branch", loc_);
    }
  }
  struct Sentinel {};
  struct Iterator {
    Branch* branch;
    bool operator*() const { return detail::branch_in_then(branch->token_); }
    Iterator& operator++() {
      branch->done_ = !detail::branch_next(branch->token_);
      return *this;
    }
    bool operator!=(Sentinel) const { return !branch->done_; }
  };
  Iterator begin() { return {this}; }
  Sentinel end() const { return {}; }

 private:
  detail::BranchToken token_;
  detail::Loc loc_;
  bool done_ = false;
  int exceptions_ = std::uncaught_exceptions();
};
inline Branch branch(Use<bool> condition, detail::Loc loc = detail::Loc::here()) { return Branch(condition, loc); }

/// Leaves the innermost recorded loop at once where the condition holds. An exit that differs between threads makes the
/// rest of the loop varying (R5).
inline void break_if(Use<bool> condition) { detail::break_if(condition.arg, condition.loc); }
/// Ends the thread where the condition holds. Refused (D22) if an op that needs its simdgroup or threadgroup follows.
inline void exit_if(Use<bool> condition) { detail::exit_if(condition.arg, condition.loc); }

/// A fact that the compiler may use, with its reason. The interpreter checks it; the manifest lists it.
inline void assume(Use<bool> condition, std::string_view why) {
  detail::emit(detail::Opcode::Assume, condition.loc, {condition.arg}, detail::text_imm(why));
}
/// Reports the message where the condition is false, on every device, and goes on.
inline void check(Use<bool> condition, std::string_view message) {
  detail::emit(detail::Opcode::Check, condition.loc, {condition.arg}, detail::text_imm(message));
}
/// Prints values into the text at each {}: `print("row {} max {}", row, top)`.
template <class... V>
void print(std::string_view text, const V&... values) {
  const detail::Loc loc = detail::Loc::here();
  detail::emit(detail::Opcode::Print, loc, {Use<device_type_of<V>>(values, loc).arg...}, detail::text_imm(text));
}

}  // namespace iron

#define IRON_CONCAT_(a, b) a##b
#define IRON_CONCAT(a, b) IRON_CONCAT_(a, b)
#define IRON_IF_(name, ...)                           \
  for (const bool name : ::iron::branch(__VA_ARGS__)) \
    if (name)
/// `IRON_IF(c) { ... } else { ... }`: both arms are recorded.
#define IRON_IF(...) IRON_IF_(IRON_CONCAT(iron_then_, __COUNTER__), __VA_ARGS__)
