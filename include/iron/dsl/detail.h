// The narrow door from the header-only language to the recorder. Nothing here is for kernel authors.
#pragma once

#include <concepts>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "ir/op.h"
#include "ir/type.h"
#include "iron/error.h"
#include "iron/types.h"

namespace iron::detail {

using Id = u32;
using ir::Opcode;
using Loc = SourceLocation;
inline constexpr Id no_id = 0xffffffffu;

/// An operand and whether it is an unnamed temporary, whose place in the order is the C++ compiler's choice (R8).
struct Arg {
  Id id = no_id;
  bool unnamed = false;
};

/// Records one op. Throws iron::Error outside a recording, or with the author's line when the op is refused.
Id emit(Opcode code, Loc loc, std::span<const Arg> operands, u64 imm = 0, ir::Type stated = {});
inline Id emit(Opcode code, Loc loc, std::initializer_list<Arg> operands, u64 imm = 0, ir::Type stated = {}) {
  return emit(code, loc, std::span<const Arg>(operands.begin(), operands.size()), imm, stated);
}
Id constant(DType type, u64 bits, Loc loc);
/// Constants from host numbers; D29 if the value does not fit the type.
Id constant_of(DType type, f64 value, Loc loc);
Id constant_of(DType type, i64 value, bool is_unsigned, Loc loc);
u64 text_imm(std::string_view text);

Id slot_new(ir::Type type, Loc loc);
inline Id slot_new(DType type, Loc loc) { return slot_new(ir::Type::value(type), loc); }
Id slot_load(Id slot, Loc loc);
void slot_store(Id slot, Arg value, Loc loc);

/// Loops and branches. `open` returns the induction variable; `pass` tells whether the body is to be recorded again.
struct LoopToken {
  u32 depth = 0;
  Id induction = no_id;
};
LoopToken loop_open(Arg start, Arg end, Arg step, Id until_slot, Loc loc);
bool loop_close(LoopToken& token, Loc loc);  ///< true if the body is to be recorded once more
struct BranchToken {
  u32 depth = 0;
  int visit = 0;
};
BranchToken branch_open(Arg condition, Loc loc);
bool branch_next(BranchToken& token);  ///< moves to the next visit; false when both arms are done
bool branch_in_then(const BranchToken& token);
/// Roles: one region each, in the order of the list. `next` moves to the next visit; false when all are recorded.
struct RolesToken {
  u32 depth = 0;
  u32 role = 0;
};
RolesToken roles_open(std::span<const std::string> names, std::string_view text, Loc loc);
bool roles_next(RolesToken& token);
/// The name of the role that is being recorded; empty outside roles.
std::string_view current_role(Loc loc);
/// Adds to the immediate of an op that was recorded before: bytes that a barrier expects, as loads are recorded.
void add_to_immediate(Id op, u64 amount);
void left_early(u32 depth, std::string_view what, Loc loc);  ///< a host break or return left an open region
bool region_open(u32 depth);
void break_if(Arg condition, Loc loc);
void exit_if(Arg condition, Loc loc);

[[noreturn]] void refuse(std::string_view code, std::string message, Loc loc, std::string fix = {});

template <class T>
inline constexpr bool always_false = false;

}  // namespace iron::detail
