// Faults that provably change nothing that a test may judge: proofs on the IR, not names.
#pragma once

#include <optional>
#include <string_view>

#include "mutants.h"

namespace iron::mutation {

/// Why a fault of a canonical kernel cannot be noticed; none where no rule proves it. The rules:
///
/// Copies. A value is symmetric under a mask m where lane l and lane l ^ m hold the same bits: constants and launch
/// values under every m; lane_id / 2^k under m < 2^k, lane_id & c under m & c = 0; f(x, shuffle_xor<m>(x)) of an f that
/// commutes under m and what x is symmetric under; an op of lanes under what all its operands are; a carried value
/// under what its start, its step and the loop's bounds are. Reading lane c + 1 instead of c then gives the same bits
/// where the value is symmetric under c ^ (c + 1).
///
/// Exchanges. Follow the values that a shuffle_xor with another mask changes, lane by lane, as the terms that one
/// operation (+, min or max) has joined, through shuffles and selects by lane. Where every such value ends in one with
/// the same terms in every lane, the kernel joins the same terms: min and max give the same bits, a sum another order,
/// which is what the tolerance of a sum is for.
///
/// One trip. A loop from a thread's id to a bound that is at most its step runs once or not at all, under a larger step
/// too.
std::optional<std::string_view> invisible(const ir::Kernel& k, const Mutation& m);

}  // namespace iron::mutation
