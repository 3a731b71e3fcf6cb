// Checks of the Hopper tier that need the whole kernel.
#include "analysis/verify_tier.h"

#include <fmt/format.h>

#include <algorithm>

#include "analysis/affine.h"
#include "analysis/tier_flow.h"
#include "ir/text.h"

namespace iron::analysis {

using namespace ir;

namespace {
/// Trips as a polynomial over what the bounds are made of, in words that mean the same in every role.
using Count = std::map<std::vector<std::string>, i64>;

Count constant(i64 c) { return c == 0 ? Count{} : Count{{{}, c}}; }
Count plus(Count a, const Count& b, i64 sign = 1) {
  for (const auto& [product, c] : b)
    if ((a[product] += sign * c) == 0) a.erase(product);
  return a;
}
Count times(const Count& a, const Count& b) {
  Count out;
  for (const auto& [p, c] : a)
    for (const auto& [q, d] : b) {
      auto product = p;
      product.insert(product.end(), q.begin(), q.end());
      std::sort(product.begin(), product.end());
      if ((out[product] += c * d) == 0) out.erase(product);
    }
  return out;
}
std::string text(const Count& c) {
  std::string out;
  for (const auto& [product, factor] : c) {
    out += out.empty() ? "" : " + ";
    std::string term;
    for (const auto& leaf : product) term += (term.empty() ? "" : " * ") + leaf;
    out += term.empty() ? std::to_string(factor) : factor == 1 ? term : fmt::format("{} * {}", factor, term);
  }
  return out.empty() ? "0" : out;
}

/// How often the ops of one kind on one pipeline run in a role.
class Counter {
 public:
  Counter(const Kernel& k, Opcode code, OpId pipe) : k_(k), affine_(k), code_(code), pipe_(pipe) {}

  Count region(RegionId r) {
    Count total;
    for (const OpId id : k_.region(r).ops) {
      if (k_.op(id).code == code_ && k_.operand(id, 0) == pipe_) total = plus(std::move(total), constant(1));
      if (k_.op(id).code == Opcode::For) total = plus(std::move(total), loop(id));
      if (k_.op(id).code == Opcode::If) {
        const Count yes = region(k_.region_of(id, 0)), no = region(k_.region_of(id, 1));
        total =
            plus(std::move(total),
                 yes == no ? yes
                           : Count{{{fmt::format("({} ? {} : {})", word(k_.operand(id, 0)), text(yes), text(no))}, 1}});
      }
    }
    return total;
  }

 private:
  Count loop(OpId id) {
    depth_[k_.region(k_.region_of(id, 0)).args[0]] = static_cast<u32>(depth_.size());
    const Count body = region(k_.region_of(id, 0));
    if (body.empty()) return {};
    i64 step = 0;
    const bool by_one = const_index(k_, k_.operand(id, 2), step) && step == 1;
    const std::string turn = word(k_.region(k_.region_of(id, 0)).args[0]);
    bool varies = false;
    for (const auto& [product, c] : body)
      for (const auto& leaf : product) varies |= leaf.find(turn) != std::string::npos;
    const Count trips = by_one ? plus(of(k_.operand(id, 1)), of(k_.operand(id, 0)), -1)
                               : Count{{{fmt::format("trips({}, {}, {})", text(of(k_.operand(id, 0))),
                                                     text(of(k_.operand(id, 1))), text(of(k_.operand(id, 2))))},
                                        1}};
    if (!varies) return times(trips, body);
    return Count{{{fmt::format("sum over {} in {} of ({})", turn, text(trips), text(body))}, 1}};
  }
  Count of(OpId v) {
    Count out;
    for (const auto& [product, c] : affine_.of(v).terms) {
      std::vector<std::string> leaves;
      for (const OpId leaf : product) leaves.push_back(word(leaf));
      std::sort(leaves.begin(), leaves.end());
      out[leaves] += c;
    }
    return out;
  }
  std::string word(OpId v) {
    const auto& op = k_.op(v);
    if (op.code == Opcode::Param) return k_.params[op.imm].name;
    if (op.code == Opcode::Const) return std::to_string(static_cast<i64>(op.imm));
    if (const auto it = depth_.find(v); it != depth_.end()) return fmt::format("turn{}", it->second);
    std::string out = std::string(k_.info_of(v).text) + (op.imm ? fmt::format("<{}>", op.imm) : "");
    if (op.code == Opcode::Arg || op.code == Opcode::Result || k_.info_of(v).has(~0u))
      return fmt::format("{}#{}", out, v);
    out += "(";
    for (u32 i = 0; i < op.operand_count; ++i)
      out += (i ? ", " : "") + (k_.type(k_.operand(v, i)).is_index() ? text(of_leaf(v, i)) : word(k_.operand(v, i)));
    return out + ")";
  }
  Count of_leaf(OpId v, u32 i) {
    const OpId operand = k_.operand(v, i);
    const auto& terms = affine_.of(operand).terms;
    if (terms.size() == 1 && terms.begin()->first.size() == 1 && terms.begin()->first[0] == operand)
      return Count{{{word(operand)}, 1}};
    return of(operand);
  }

  const Kernel& k_;
  Affine affine_;
  Opcode code_;
  OpId pipe_;
  std::map<OpId, u32> depth_;
};

class TierVerifier {
 public:
  TierVerifier(const Kernel& k, std::string_view pass) : k_(k), pass_(pass), affine_(k) {}

  std::vector<Diagnostic> run() {
    if (!uses_tier(k_)) return {};
    try {
      (void)tensor_boxes(k_);
    } catch (const Error& e) {
      found_.push_back(e.diagnostics().front());
    }
    const auto users = use_lists(k_);
    k_.walk([&](OpId id) {
      switch (k_.op(id).code) {
        case Opcode::SharedView:
          view(id);
          break;
        case Opcode::TmaLoad:
          load(id);
          break;
        case Opcode::PipeExpect:
          expect(id);
          break;
        case Opcode::PipeNew:
          pipe(id, users[id]);
          break;
        default:
          break;
      }
    });
    if (found_.empty())
      for (auto& d : tier_flow(k_).problems) found_.push_back(std::move(d));
    for (auto& d : found_) d.kernel = k_.name, d.after_pass = pass_;
    return std::move(found_);
  }

 private:
  void say(std::string_view code, OpId id, std::string message, std::string fix) {
    Diagnostic d;
    d.code = code, d.message = std::move(message), d.fix = std::move(fix);
    d.file = k_.location(id).file, d.line = k_.location(id).line;
    d.notes.push_back({print_op(k_, id), "", 0});
    found_.push_back(std::move(d));
  }

  // The swizzle repeats after 8 rows: a view that starts elsewhere would see another pattern.
  void view(OpId id) {
    const Type t = k_.type(id);
    if (t.swizzle == Swizzle::none) return;
    for (const auto& [product, c] : affine_.of(k_.operand(id, 2)).terms)
      if (c % 8 != 0)
        return say("D12", id, "a view of swizzled memory starts at a row that is not shown to be a multiple of 8",
                   "start views at multiples of 8 rows: multiply what varies by the rows of a part");
  }

  void load(OpId id) {
    const OpId slot = k_.operand(id, 3);
    if (k_.op(slot).code != Opcode::PipeAcquire || k_.operand(slot, 0) != k_.operand(id, 2))
      return say("D31", id, "a copy names a slot that its pipeline has not handed out",
                 "name the slot that acquire() of this pipeline gave");
    if (k_.op(slot).region != k_.op(id).region)
      say("D31", id, "a copy runs on other paths than the acquire of its slot, whose bytes are expected on every one",
          "start all copies of a slot where it is acquired");
    const OpId seen = k_.operand(id, 1);
    if (k_.op(seen).code == Opcode::SharedView && k_.operand(seen, 1) != slot)
      say("D31", id, "a copy fills another slot than the one it is counted for", "index the shared array by the slot");
    if (unpack<CopyImm>(k_.op(id).imm).multicast && cluster_size(k_) == 1)
      say("TIER04", id, "a multicast copy in a kernel without clusters", "use a cluster of 2, or a plain copy");
  }

  void expect(OpId id) {
    const OpId slot = k_.operand(id, 1);
    if (k_.op(slot).code != Opcode::PipeAcquire || k_.operand(slot, 0) != k_.operand(id, 0))
      return say("D31", id, "bytes are expected for a slot that was not acquired", "name the slot that acquire() gave");
    const u64 bytes = expected_bytes(k_, slot);
    if (k_.op(id).imm != bytes)
      say("D31", id, fmt::format("{} bytes are expected, the copies of the slot bring {}", k_.op(id).imm, bytes),
          "expect the sum of the boxes, those of peers included");
  }

  void pipe(OpId id, const std::vector<OpId>& users) {
    std::set<RegionId> from, to;
    for (const OpId use : users) {
      const auto code = k_.op(use).code;
      if (code == Opcode::PipeAcquire) from.insert(role_region(k_, use));
      if (code == Opcode::PipeWait || code == Opcode::PipeRelease) to.insert(role_region(k_, use));
    }
    if (from.size() != 1 || to.size() != 1 || from == to)
      return say("TIER04", id, fmt::format("a pipeline with {} loading and {} using roles", from.size(), to.size()),
                 "load in one role and use in another");
    if (*from.begin() == none || *to.begin() == none)
      return say("TIER04", id, "a pipeline outside roles", "load in one role and use in another");
    const Count loads = Counter(k_, Opcode::PipeAcquire, id).region(*from.begin()),
                waits = Counter(k_, Opcode::PipeWait, id).region(*to.begin());
    if (loads != waits) {
      say("TIER04", id, "the two sides of the pipeline are not shown to run the same number of trips",
          "give both sides the same loop bounds");
      found_.back().notes.push_back({"the loading role fills " + text(loads), "", 0});
      found_.back().notes.push_back({"the using role waits for " + text(waits), "", 0});
    }
  }

  const Kernel& k_;
  std::string_view pass_;
  Affine affine_;
  std::vector<Diagnostic> found_;
};
}  // namespace

std::vector<Diagnostic> verify_tier(const Kernel& k, std::string_view after_pass) {
  return TierVerifier(k, after_pass).run();
}

}  // namespace iron::analysis
