// Loops and branches in C-like text. Carried values are variables; a region that would print nothing is not printed.
#include <fmt/format.h>

#include <algorithm>

#include "emit/c_like/emitter.h"

namespace iron::emit {

using ir::Opcode;
using ir::OpId;

bool mentions(const std::string& text, const std::string& name) {
  const auto word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_'; };
  for (std::size_t at = text.find(name); at != std::string::npos; at = text.find(name, at + 1)) {
    const std::size_t end = at + name.size();
    if ((at == 0 || !word(text[at - 1])) && (end == text.size() || !word(text[end]))) return true;
  }
  return false;
}

// All values are read before any variable is set: an assignment whose value names a variable set earlier goes through a
// constant.
void Emitter::assign(OpId yield, const std::vector<std::vector<std::string>>& targets) {
  struct Move {
    std::string to, from;
    std::string_view type;
  };
  std::vector<Move> moves;
  for (u32 i = 0; i < targets.size(); ++i)
    for (u32 lane = 0; lane < targets[i].size(); ++lane) {
      const auto& from = arg(yield, i, lane).text;
      if (from != targets[i][lane])
        moves.push_back({targets[i][lane], from, register_type(k_.type(k_.operand(yield, i)))});
    }
  for (std::size_t i = 0; i < moves.size(); ++i) {
    const bool overwritten = std::any_of(moves.begin(), moves.begin() + static_cast<std::ptrdiff_t>(i),
                                         [&](const Move& m) { return mentions(moves[i].from, m.to); });
    if (!overwritten) continue;
    const std::string n = fresh("next");
    line(yield, fmt::format("const {} {} = {};", moves[i].type, n, moves[i].from));
    moves[i].from = n;
  }
  for (const auto& m : moves) line(yield, fmt::format("{} = {};", m.to, m.from));
}

void Emitter::emit_for(OpId id) {
  const ir::RegionId body = k_.region_of(id, 0);
  const auto& args = k_.region(body).args;
  const DType counter = k_.type(args[0]).elem;
  const auto type = type_name(counter);
  const auto results = k_.results(id);

  std::vector<std::vector<std::string>> variables;
  for (u32 i = 0; i < results.size(); ++i) {
    auto& names = variables.emplace_back();
    std::vector<Expr> lanes;
    for (u32 lane = 0; lane < registers(k_.type(results[i])); ++lane) {
      names.push_back(fresh("acc"));
      lanes.push_back(raw(names.back()));
      line(id, fmt::format("{} {} = {};", register_type(k_.type(results[i])), names.back(), arg(id, 3 + i, lane).text));
    }
    values_[results[i]] = lanes;
    values_[args[i + 1]] = lanes;
  }

  const std::string i = fresh("i");
  values_[args[0]] = {raw(i)};
  // Bounds are read once: a literal, a parameter or a named constant.
  const auto once = [&](u32 operand, std::string_view hint) {
    const Expr& e = arg(id, operand);
    return e.literal || e.prec == Prec::primary ? e : name(id, type, hint, e);
  };
  const Expr start = arg(id, 0), end = once(1, "end");
  i64 step_value = 0;
  const bool step_known = ir::const_index(k_, k_.operand(id, 2), step_value);
  const Expr step =
      step_known || arg(id, 2).literal ? arg(id, 2) : name(id, type, "step", call("at_least_1", type, {arg(id, 2)}));
  std::string stop;
  if (const auto until = ir::unpack<ir::UntilImm>(k_.op(id).imm); until.carried_plus_one)
    stop = " && !" + variables[until.carried_plus_one - 1][0];

  std::string head;
  const std::string advance = step_known && step_value == 1 ? "++" + i : fmt::format("{} += {}", i, step.text);
  // i + step cannot pass the end of `index`; in a machine integer it could, so turns are counted.
  if (counter == DType::index || (step_known && step_value == 1)) {
    head = fmt::format("for ({} {} = {}; {} < {}{}; {}) {{", type, i, start.text, i, inside(end, Prec::relation, false),
                       stop, advance);
  } else {
    const auto first = once(0, "start");
    const std::string left = fresh("left");
    const std::string_view wide = dtype_size(counter) == 8 ? "u64" : "u32";
    line(id, fmt::format("{} {} = {};", wide, left,
                         call("trips", fmt::format("{}, {}", type, wide), {first, end, step}).text));
    head = fmt::format("for ({} {} = {}; {} != 0{}; --{}, {} = ({})({} + {})) {{", type, i, first.text, left, stop,
                       left, i, type, i, step.text);
  }
  const auto shown_before = shown_;
  shown_ = k_.op(id).loc;
  const std::string inner = capture([&] {
    ++depth_;
    region(body);
    assign(k_.terminator(body), variables);
    --depth_;
  });
  const auto shown_after = shown_;
  shown_ = shown_before;
  if (inner.empty()) return;
  if (keep_loops_ && !(options_.leave_out & no_unroll_1)) line(d_.keep_loop_pragma());
  line(id, head);
  out_ += inner;
  line("}");
  shown_ = shown_after;
}

void Emitter::emit_if(OpId id) {
  const auto results = k_.results(id);
  std::vector<std::vector<std::string>> variables;
  for (const OpId r : results) {
    auto& names = variables.emplace_back();
    std::vector<Expr> lanes;
    for (u32 lane = 0; lane < registers(k_.type(r)); ++lane) {
      names.push_back(fresh("either"));
      lanes.push_back(raw(names.back()));
      line(id, fmt::format("{} {};", register_type(k_.type(r)), names.back()));
    }
    values_[r] = lanes;
  }
  const auto branch = [&](u32 n) {
    return capture([&] {
      ++depth_;
      region(k_.region_of(id, n));
      assign(k_.terminator(k_.region_of(id, n)), variables);
      --depth_;
    });
  };
  const Expr condition = arg(id, 0);
  const auto shown_before = shown_;
  shown_ = k_.op(id).loc;
  const std::string then = branch(0), otherwise = branch(1);
  const auto shown_after = shown_;
  shown_ = shown_before;
  if (then.empty() && otherwise.empty()) return;
  line(id, fmt::format("if ({}) {{", then.empty() ? unary("!", condition).text : condition.text));
  out_ += then.empty() ? otherwise : then;
  if (!then.empty() && !otherwise.empty()) {
    line("} else {");
    out_ += otherwise;
  }
  line("}");
  shown_ = shown_after;
}

}  // namespace iron::emit
