// The driver of C-like emission: names, places of values, helpers, the kernel's frame.
#include "emit/c_like/emitter.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "ir/text.h"

namespace iron::emit {

using ir::Opcode;
using ir::OpId;

namespace {
// Words that a parameter's name may not take.
constexpr std::string_view reserved[] = {
    "alignas",  "asm",          "auto",      "bool",      "break",    "case",        "char",     "class",
    "const",    "continue",     "default",   "delete",    "do",       "double",      "else",     "enum",
    "extern",   "false",        "float",     "for",       "goto",     "if",          "inline",   "int",
    "long",     "namespace",    "new",       "operator",  "private",  "public",      "register", "return",
    "short",    "signed",       "sizeof",    "static",    "struct",   "switch",      "template", "this",
    "true",     "typedef",      "typename",  "union",     "unsigned", "using",       "void",     "volatile",
    "while",    "device",       "constant",  "kernel",    "thread",   "threadgroup", "half",     "max",
    "min",      "i8",           "u8",        "i16",       "u16",      "i32",         "u32",      "i64",
    "u64",      "f16",          "bf16",      "f32",       "f64",      "index_t",     "items",    "Vec",
    "partials", "shared_block", "shared_at", "warpgroup", "TensorMap"};

std::string identifier(std::string_view name) {
  std::string out;
  for (const char c : name) out += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (out.empty() || std::isdigit(static_cast<unsigned char>(out[0]))) out.insert(0, 1, 'p');
  return out;
}

std::string_view hint_of(Opcode code) {
  switch (code) {
    case Opcode::ThreadId:
    case Opcode::ThreadPos:
      return "thread_id";
    case Opcode::GroupId:
      return "group";
    case Opcode::GridThreadId:
    case Opcode::GridPos:
      return "at";
    case Opcode::LaneId:
      return "lane";
    case Opcode::SimdgroupId:
      return "simdgroup";
    case Opcode::Lt:
    case Opcode::Le:
    case Opcode::Gt:
    case Opcode::Ge:
    case Opcode::Eq:
    case Opcode::Ne:
    case Opcode::IsNan:
      return "is";
    case Opcode::Select:
      return "pick";
    default:
      return "t";
  }
}
}  // namespace

Emitter::Emitter(const ir::Kernel& k, const Dialect& dialect, const EmitOptions& options)
    : k_(k),
      d_(dialect),
      options_(options),
      values_(k.op_capacity()),
      users_(k.op_capacity()),
      live_(k.op_capacity(), false) {
  mark_live();
  for (const auto w : reserved) taken_.emplace(w);
  for (const auto& h : shared_helpers()) taken_.emplace(h.name);
  for (const auto& h : d_.helpers()) taken_.emplace(h.name);
}

// --- names
// --------------------------------------------------------------------------------------------------------------

std::string Emitter::fresh(std::string_view hint) {
  std::string base = identifier(hint);
  if (taken_.insert(base).second) return base;
  for (int& n = counters_[base];;) {
    std::string candidate = fmt::format("{}_{}", base, ++n);
    if (taken_.insert(candidate).second) return candidate;
  }
}

Expr Emitter::literal(DType elem, u64 bits) {
  const auto number = [&](auto v, std::string_view suffix) {
    std::string s = fmt::format("{}", v);
    if (s.find_first_of(".en") == std::string::npos) s += ".0";
    s += suffix;
    return Expr{s, s[0] == '-' ? Prec::unary : Prec::primary, true};
  };
  const auto integer = [&](i64 v, std::string_view suffix) {
    return Expr{fmt::format("{}{}", v, suffix), v < 0 ? Prec::unary : Prec::primary, true};
  };
  switch (elem) {
    case DType::boolean:
      return {bits & 1 ? "true" : "false", Prec::primary, true};
    case DType::i8:
      return integer(static_cast<i8>(bits), "");
    case DType::i16:
      return integer(static_cast<i16>(bits), "");
    case DType::i32: {
      const auto v = static_cast<i32>(bits);
      if (v == std::numeric_limits<i32>::min()) return {"(-2147483647 - 1)", Prec::primary, true};
      return integer(v, "");
    }
    case DType::i64:
    case DType::index: {
      const auto v = static_cast<i64>(bits);
      if (v == std::numeric_limits<i64>::min()) return {"(-9223372036854775807ll - 1)", Prec::primary, true};
      const bool small = v == static_cast<i32>(v) && v != std::numeric_limits<i32>::min();
      return integer(v, elem == DType::index && small ? "" : "ll");
    }
    case DType::u8:
    case DType::u16:
    case DType::u32:
      return {fmt::format("{}u", static_cast<u32>(bits)), Prec::primary, true};
    case DType::u64:
      return {fmt::format("{}ull", bits), Prec::primary, true};
    case DType::f16:
      return {fmt::format("f16{{{:#06x}}}", static_cast<u16>(bits)), Prec::primary, true};
    case DType::bf16:
      return {fmt::format("bf16{{{:#06x}}}", static_cast<u16>(bits)), Prec::primary, true};
    case DType::f32: {
      const auto v = std::bit_cast<f32>(static_cast<u32>(bits));
      if (std::isfinite(v)) return number(v, "f");
      need("float_bits");
      return {fmt::format("as_f32({:#x}u)", static_cast<u32>(bits)), Prec::primary, true};
    }
    case DType::f64: {
      const auto v = std::bit_cast<f64>(bits);
      if (std::isfinite(v)) return number(v, "");
      need("double_bits");
      return {fmt::format("as_f64({:#x}ull)", bits), Prec::primary, true};
    }
    case DType::none:
      break;
  }
  return raw("0");
}

// --- lines
// --------------------------------------------------------------------------------------------------------------

void Emitter::line(const std::string& text) {
  out_ += std::string(static_cast<std::size_t>(depth_) * 2, ' ') + text + "\n";
}

void Emitter::line(OpId at, const std::string& text) {
  const auto loc = k_.op(at).loc;
  if (const auto& l = k_.locations()[loc]; loc != shown_ && l.line) line(fmt::format("// {}:{}", l.file, l.line));
  if (k_.locations()[loc].line) shown_ = loc;
  line(text);
}
void Emitter::open(const std::string& text) { line(text), ++depth_; }
void Emitter::close(const std::string& text) { --depth_, line(text); }

std::string Emitter::capture(const std::function<void()>& write) {
  std::string outer;
  std::swap(outer, out_);
  write();
  std::swap(outer, out_);
  return outer;
}

Expr Emitter::name(OpId at, std::string_view type, std::string_view hint, const Expr& value) {
  const std::string n = fresh(hint);
  line(at, fmt::format("const {} {} = {};", type, n, value.text));
  return raw(n);
}

void Emitter::define(OpId id, std::string_view hint, const std::vector<Expr>& lanes) {
  std::vector<Expr> named;
  for (const auto& e : lanes) named.push_back(name(id, register_type(k_.type(id)), hint, e));
  set(id, std::move(named));
}

// --- helpers
// ------------------------------------------------------------------------------------------------------------

const Helper* Emitter::find_helper(std::string_view wanted) const {
  for (const auto& h : d_.helpers())
    if (h.name == wanted) return &h;
  for (const auto& h : shared_helpers())
    if (h.name == wanted) return &h;
  return nullptr;
}

std::string Emitter::need(std::string_view wanted) {
  if (!helpers_seen_.emplace(wanted).second) return std::string(wanted);
  const Helper* h = find_helper(wanted);
  if (!h) throw Error("EMIT00", fmt::format("the {} dialect has no helper '{}'", d_.name(), wanted));
  for (std::size_t at = 0; at < h->needs.size();) {
    const auto end = std::min(h->needs.find(' ', at), h->needs.size());
    if (end > at) need(h->needs.substr(at, end - at));
    at = end + 1;
  }
  if (h->text.empty()) return std::string(wanted);
  std::string text(h->text);
  for (std::size_t at; (at = text.find("$fn")) != std::string::npos;) text.replace(at, 3, d_.function_words());
  helper_texts_.push_back(std::move(text));
  return std::string(wanted);
}

std::string Emitter::made(const std::string& helper, const std::function<std::string()>& text) {
  if (!helpers_seen_.insert(helper).second) return helper;
  taken_.insert(helper);
  std::string body = text();  // may need helpers, which then stand above
  for (std::size_t at; (at = body.find("$fn")) != std::string::npos;) body.replace(at, 3, d_.function_words());
  helper_texts_.push_back(std::move(body));
  return helper;
}

Expr Emitter::call(std::string_view helper, std::string_view template_args, std::initializer_list<Expr> args) {
  std::string text = need(helper);
  if (!template_args.empty()) text += fmt::format("<{}>", template_args);
  text += "(";
  bool first = true;
  for (const auto& a : args) text += (first ? "" : ", ") + a.text, first = false;
  return raw(text + ")");
}
Expr Emitter::call(std::string_view helper, std::initializer_list<Expr> args) { return call(helper, {}, args); }

Expr Emitter::apply(Opcode code, DType type, std::initializer_list<Expr> args) {
  const Row& row = d_.table()[code];
  return row.lane(*this, {ir::none, code, type, type, {args.begin(), args.size()}, 0});
}

// --- memory that the kernel owns
// ----------------------------------------------------------------------------------------

std::string Emitter::shared(OpId, std::string_view hint, DType elem, u64 count, u32 align) {
  const std::string n = fresh(hint);
  shared_.push_back({n, std::string(type_name(elem)), count, count * dtype_size(elem), align});
  return n;
}
std::string Emitter::partials() {
  if (!partials_) shared_.push_back({"partials", std::string(type_name(DType::u64)), 32, 256, 16});
  partials_ = true;
  return "partials";
}
std::string Emitter::length_of_param(u32 param) {
  lengths_.insert(param);
  return param_names_[param] + "_length";
}
std::string Emitter::items() {
  items_ = true;
  return "items";
}

std::string Emitter::linear_thread() {
  const auto [w, h, depth] = options_.threads;
  std::string text = d_.thread_pos(0);
  if (h > 1 || depth > 1) text += fmt::format(" + {}u * {}", w, d_.thread_pos(1));
  if (depth > 1) text += fmt::format(" + {}u * {}", w * h, d_.thread_pos(2));
  return text;
}

bool Emitter::read_only(OpId mem) const {
  const OpId root = ir::memory_root(k_, mem);
  return k_.op(root).code == Opcode::Param && k_.params[k_.op(root).imm].kind == ir::ParamKind::in;
}

void Emitter::refuse(OpId id, std::string_view why, std::string_view fix) const {
  Diagnostic d;
  d.code = "EMIT01", d.kernel = k_.name, d.fix = fix;
  d.message = fmt::format("{} in {}: {}", k_.info_of(id).text, d_.name(), why);
  d.file = k_.location(id).file, d.line = k_.location(id).line;
  d.notes.push_back({ir::print_op(k_, id), "", 0});
  throw Error(std::move(d));
}

// Only what an effect needs is written; uses are counted among that.
void Emitter::mark_live() {
  std::vector<OpId> todo;
  const auto mark = [&](OpId id) {
    if (live_[id]) return;
    live_[id] = true;
    todo.push_back(id);
  };
  k_.walk([&](OpId id) {
    if (ir::pinned(k_, id)) mark(id);
  });
  while (!todo.empty()) {
    const OpId id = todo.back();
    todo.pop_back();
    for (const OpId v : k_.operands(id)) mark(v);
  }
  k_.walk([&](OpId id) {
    if (!live_[id]) return;
    for (const OpId v : k_.operands(id)) users_[v].push_back(id);
  });
}

// --- ops
// ----------------------------------------------------------------------------------------------------------------

// A pure value with one use further down its own region is written where it is used.
bool Emitter::in_place(OpId id) const {
  if (users_[id].size() != 1) return false;
  const OpId user = users_[id][0];
  if (k_.op(user).region != k_.op(id).region) return false;
  const Row& row = d_.table()[k_.op(user).code];
  if (!row.operands_once) return false;
  u32 lanes = k_.type(user).is_value() ? k_.type(user).lanes : 1;
  for (const OpId v : k_.operands(user))
    if (k_.type(v).is_value()) lanes = std::max<u32>(lanes, k_.type(v).lanes);
  return k_.type(id).lanes == lanes;
}

void Emitter::lanes(OpId id, const Row& row) {
  const auto type = k_.type(id);
  const auto operands = k_.operands(id);
  const DType from = operands.empty() ? DType::none : k_.type(operands[0]).elem;
  std::vector<Expr> out, args;
  bool is_short = true, constant = true;
  for (u32 lane = 0; lane < type.lanes; ++lane) {
    args.clear();
    bool all_literal = true;
    for (const OpId v : operands) {
      args.push_back(values_[v].at(values_[v].size() == 1 ? 0 : lane));
      all_literal = all_literal && args.back().literal;
    }
    // Two literals would be computed in `int`.
    if (all_literal && !args.empty() && type.is_index()) args[0] = c_cast(type_name(type), args[0]);
    out.push_back(row.lane(*this, {id, k_.op(id).code, type.elem, from, args, k_.op(id).imm}));
    is_short = is_short && out.back().text.size() <= 80;
    constant = constant && out.back().literal;
  }
  if (constant || (is_short && in_place(id))) return set(id, std::move(out));
  define(id, hint_of(k_.op(id).code), out);
}

void Dialect::packed_op(Emitter& e, ir::OpId id) const { e.refuse(id, "16-bit fragments need the Hopper tier"); }

void Emitter::op(OpId id) {
  const auto& o = k_.op(id);
  const Row& row = d_.table()[o.code];
  if (row.refused) refuse(id, row.refused);
  if (!live_[id]) return;
  if (row.lane && (packed(o.type) || (o.operand_count > 0 && packed(k_.type(k_.operand(id, 0))))))
    return d_.packed_op(*this, id);
  if (row.statement) return row.statement(*this, id);
  lanes(id, row);
}

void Emitter::region(ir::RegionId r) {
  d_.enter_region(*this, r);
  for (const OpId id : k_.region(r).ops) op(id);
}

void Emitter::check_launchable() const {
  const u32 n = threads();
  if (n == 0 || n > 1024)
    throw Error("D02", fmt::format("kernel {}: a threadgroup of {} threads", k_.name, n),
                "launch 1 to 1024 threads a threadgroup");
  if (n % 32 == 0) return;
  k_.walk([&](OpId id) {
    const auto& info = k_.info_of(id);
    const bool simd = info.has(ir::Convergent) && id != ir::none && k_.op(id).code != Opcode::Barrier;
    if (!simd || info.has(ir::TierOp)) return;
    Diagnostic d;
    d.code = "D02", d.kernel = k_.name;
    d.message = fmt::format("{} needs whole simdgroups, the threadgroup has {} threads", info.text, n);
    d.file = k_.location(id).file, d.line = k_.location(id).line;
    d.fix = "launch a multiple of 32 threads";
    throw Error(std::move(d));
  });
}

std::string Emitter::address(const std::string& shared_array) {
  for (auto& s : shared_)
    if (s.name == shared_array) {
      s.addressed = addressed_ = true;
      need("shared_address");
      taken_.insert(s.name + "_at");
      return s.name + "_at";
    }
  throw Error("EMIT00", fmt::format("{} is no threadgroup memory", shared_array));
}

std::vector<std::string> Emitter::fresh_names(std::string_view hint, u32 count) {
  const std::string base = fresh(hint);
  std::vector<std::string> names;
  for (u32 i = 0; i < count; ++i) {
    names.push_back(base + (std::isdigit(static_cast<unsigned char>(base.back())) ? "_" : "") + std::to_string(i));
    taken_.insert(names.back());
  }
  return names;
}

std::string Emitter::shared_declarations(Source& out, const std::string& body) {
  std::string text;
  u64 total = 0;
  for (const auto& s : shared_) total = (total + s.align - 1) / s.align * s.align + s.bytes;
  if (total <= options_.static_shared_limit && !addressed_) {
    for (const auto& s : shared_) text += "  " + d_.shared_array(s.type, s.name, s.count, s.align) + "\n";
    out.static_shared_bytes = total;
    return text;
  }
  if (addressed_) {  // large alignments first: no gaps
    std::vector<SharedArray> ordered;
    for (const auto& s : shared_)
      ordered.insert(std::upper_bound(ordered.begin(), ordered.end(), s,
                                      [](const auto& x, const auto& y) { return x.align > y.align; }),
                     s);
    shared_ = std::move(ordered);
  }
  text += "  " + d_.shared_block("shared_block") + "\n";
  if (addressed_) text += "  const u32 shared_at = shared_address(shared_block);\n";
  u64 at = 0;
  for (const auto& s : shared_) {
    at = (at + s.align - 1) / s.align * s.align;
    if (!addressed_ || mentions(body, s.name))
      text += fmt::format("  {0}* const {1} = ({0}*)(shared_block + {2});\n", s.type, s.name, at);
    if (s.addressed) text += fmt::format("  const u32 {}_at = shared_at + {}u;\n", s.name, at);
    at += s.bytes;
  }
  out.dynamic_shared_bytes = at;
  return text;
}

Source Emitter::run() {
  check_launchable();
  entry_ = fresh(k_.name);
  for (u32 i = 0; i < k_.params.size(); ++i) {
    const auto& p = k_.params[i];
    param_names_.push_back(fresh(p.name));
    values_[p.op] = {raw(param_names_.back())};
    if (p.is_buffer()) taken_.insert(param_names_.back() + "_length");
  }
  const auto declare = [&](DType t) {
    if (t == DType::f16) need("f16");
    if (t == DType::bf16) need("bf16");
  };
  for (const auto& p : k_.params) {
    declare(p.elem);
    if (p.tensor) need("TensorMap");
  }
  k_.walk([&](OpId id) { declare(k_.type(id).elem); });
  const std::string body = capture([&] {
    region(k_.body());
    d_.leave_kernel(*this);
  });
  if (body.empty()) throw Error("D04", fmt::format("kernel {} does nothing", k_.name), "store a result");

  Source out;
  out.entry = entry_;
  for (u32 i = 0; i < k_.params.size(); ++i) {
    const auto& p = k_.params[i];
    out.args.push_back({p.tensor ? ArgSlot::tensor : p.is_buffer() ? ArgSlot::pointer : ArgSlot::scalar, i});
    if (lengths_.count(i)) out.args.push_back({ArgSlot::length, i});
  }
  if (items_) out.args.push_back({ArgSlot::items, 0});
  const std::string declarations = shared_declarations(out, body);
  const std::string signature = d_.signature(*this, out.args);
  out.boxes = ir::tensor_boxes(k_), out.cluster = ir::cluster_size(k_), out.tier = ir::uses_tier(k_);
  out.text = d_.preamble(options_.index_is_32);
  for (const auto& h : helper_texts_) out.text += h + "\n";
  std::string first;
  if (options_.await_predecessor && !d_.await_predecessor().empty()) {
    first = "  " + d_.await_predecessor() + "\n";
    out.awaits_predecessor = true;
  }
  out.text += "\n" + signature + "\n" + declarations + first + body + "}\n";
  return out;
}

}  // namespace iron::emit
