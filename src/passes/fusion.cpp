// fusion: finds chains of elementwise ops and notes them as groups beside the kernel. The ops stay, so that fma_fusion
// and every later pass see them. Keeps every bit.
#include <algorithm>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
constexpr std::size_t longest = 8;

bool elementwise(const Kernel& k, OpId id) {
  const auto& op = k.op(id);
  if (!op.type.is_value() || op.type.is_index() || op.operand_count == 0) return false;
  return k.info_of(id).pure() && op.code >= Opcode::Add && op.code <= Opcode::DecodeE8M0;
}
}  // namespace

Changed run_fusion(Kernel& k, PassContext& context) {
  context.groups.clear();
  const auto users = use_lists(k);
  std::vector<bool> taken(k.op_capacity(), false);
  k.walk([&](OpId first) {
    if (taken[first] || !elementwise(k, first)) return;
    FusionGroup group;
    for (OpId id = first; group.ops.size() < longest;) {
      taken[id] = true;
      group.ops.push_back(id);
      if (users[id].size() != 1) break;
      const OpId next = users[id][0];
      if (taken[next] || k.op(next).region != k.op(id).region || !elementwise(k, next)) break;
      id = next;
    }
    if (group.ops.size() > 1) context.groups.push_back(std::move(group));
  });
  return false;
}

}  // namespace iron::passes
