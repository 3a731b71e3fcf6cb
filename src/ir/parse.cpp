// IR text, read. Every error names line and column of the text.
#include <fmt/format.h>

#include <cctype>
#include <charconv>
#include <cstdlib>
#include <map>

#include "ir/builder.h"
#include "ir/text.h"
#include "ir/verify.h"

namespace iron::ir {

namespace {

struct Token {
  enum Kind { end, word, value, number, string, punct, newline } kind = end;
  std::string text;
  int line = 1, column = 1;
};

class Lexer {
 public:
  Lexer(std::string_view text, std::string_view file) : text_(text), file_(file) { next(); }
  const Token& peek() const { return token_; }
  /// The peeked token stands directly after the last one taken: `1:f32` is a constant, `1 : f32` ends in a result type.
  bool glued() const { return start_ == last_end_; }
  Token next() {
    Token before = token_;
    last_end_ = at_;
    scan();
    return before;
  }
  [[noreturn]] void fail(std::string_view code, const Token& at, std::string message, std::string fix = {}) const {
    Diagnostic d;
    d.code = code, d.message = std::move(message), d.fix = std::move(fix);
    d.file = file_, d.line = at.line, d.column = at.column;
    // The text may exist only in memory: show its line here rather than from a file.
    std::size_t start = 0;
    for (int i = 1; i < at.line; ++i) start = text_.find('\n', start) + 1;
    d.notes.push_back({fmt::format("in the text: {}", text_.substr(start, text_.find('\n', start) - start)), "", 0});
    throw Error(std::move(d));
  }

 private:
  void scan() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == ' ' || c == '\t' || c == '\r')
        advance();
      else if (c == '\n')
        advance();
      else if (text_.substr(at_, 2) == "//")
        while (at_ < text_.size() && text_[at_] != '\n') advance();
      else
        break;
    }
    token_ = {Token::end, "", line_, column_};
    start_ = at_;
    if (at_ >= text_.size()) return;
    const auto word_char = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; };
    const char c = text_[at_];
    if (c == '%' || c == '@') {
      token_.kind = Token::value;
      token_.text += c;
      advance();
      while (at_ < text_.size() && (word_char(text_[at_]))) take();
    } else if (std::isdigit(static_cast<unsigned char>(c)) || (c == '-' && at_ + 1 < text_.size())) {
      token_.kind = Token::number;
      take();
      while (at_ < text_.size() &&
             (word_char(text_[at_]) || ((text_[at_] == '+' || text_[at_] == '-') && (text_[at_ - 1] == 'e'))))
        take();
    } else if (std::isalpha(static_cast<unsigned char>(c)) || c == '_') {
      token_.kind = Token::word;
      while (at_ < text_.size() && word_char(text_[at_])) take();
    } else if (c == '"') {
      token_.kind = Token::string;
      advance();
      for (;;) {
        if (at_ >= text_.size() || text_[at_] == '\n') fail("IR0001", token_, "a string that does not end on its line");
        if (text_[at_] == '"') break;
        if (text_[at_] == '\\' && at_ + 1 < text_.size()) {
          advance();
          token_.text += text_[at_] == 'n' ? '\n' : text_[at_];
          advance();
        } else
          take();
      }
      advance();
    } else {
      token_.kind = Token::punct;
      take();
    }
  }
  void take() { token_.text += text_[at_], advance(); }
  void advance() {
    if (text_[at_] == '\n')
      ++line_, column_ = 1;
    else
      ++column_;
    ++at_;
  }

  std::string_view text_;
  std::string file_;
  std::size_t at_ = 0, start_ = 0, last_end_ = 0;
  int line_ = 1, column_ = 1;
  Token token_;
};

class Parser {
 public:
  Parser(std::string_view text, std::string_view file) : lex_(text, file) {}
  bool done() const { return lex_.peek().kind == Token::end; }

  Kernel kernel() {
    k_ = Kernel();
    values_.clear();
    files_.clear();
    expect_word("kernel");
    const Token kernel_name = lex_.next();
    if (kernel_name.kind != Token::value || kernel_name.text[0] != '@')
      lex_.fail("IR0002", kernel_name, "expected the kernel's name, as @name");
    k_.name = kernel_name.text.substr(1);
    expect("(");
    while (!is(")")) {
      const Token p = expect_value();
      expect(":");
      const Token kind = lex_.next();
      ParamKind pk{};
      if (!from_name<ParamKind>(kind.text, 4, pk))
        lex_.fail("IR0003", kind, fmt::format("'{}' is no parameter kind", kind.text), "in, out, inout or scalar");
      const bool tensor = take_word("tensor");
      const DType elem = dtype();
      if (values_.count(p.text)) lex_.fail("IR0004", p, fmt::format("{} is defined twice", p.text));
      values_[p.text] = k_.add_param(p.text.substr(1), pk, elem, 0, tensor);
      if (!is(")")) expect(",");
    }
    expect(")");
    const Token mode = lex_.next();
    if (!from_name<Mode>(mode.text, 5, k_.mode))
      lex_.fail("IR0003", mode, fmt::format("'{}' is no mode", mode.text),
                "elementwise, threadgroup, grid3d, tile2d or simdgroup2d");
    const Token numerics = lex_.next();
    if (!from_name<Numerics>(numerics.text, 3, k_.numerics))
      lex_.fail("IR0003", numerics, fmt::format("'{}' is no numerics policy", numerics.text), "exact, fused or fast");
    if (take_word("width_generic")) k_.width_generic = true;
    if (take_word("spec")) k_.spec = expect_string();
    expect("{");
    while (take_word("file")) {
      lex_.next();
      files_.push_back(expect_string());
    }
    region(k_.body());
    expect("}");
    const auto problems = verify_structure(k_);
    if (!problems.empty()) throw Error(problems);
    return std::move(k_);
  }

 private:
  template <class E>
  static bool from_name(std::string_view text, int count, E& out) {
    for (int i = 0; i < count; ++i)
      if (name(static_cast<E>(i)) == text) {
        out = static_cast<E>(i);
        return true;
      }
    return false;
  }

  bool is(std::string_view p) const { return lex_.peek().kind == Token::punct && lex_.peek().text == p; }
  bool take(std::string_view p) {
    if (!is(p)) return false;
    lex_.next();
    return true;
  }
  Token expect(std::string_view p) {
    if (!is(p)) lex_.fail("IR0002", lex_.peek(), fmt::format("expected '{}' before '{}'", p, lex_.peek().text));
    return lex_.next();
  }
  bool take_word(std::string_view w) {
    if (lex_.peek().kind != Token::word || lex_.peek().text != w) return false;
    lex_.next();
    return true;
  }
  void expect_word(std::string_view w) {
    if (!take_word(w)) lex_.fail("IR0002", lex_.peek(), fmt::format("expected '{}' before '{}'", w, lex_.peek().text));
  }
  Token expect_value() {
    if (lex_.peek().kind != Token::value)
      lex_.fail("IR0002", lex_.peek(), fmt::format("expected a value before '{}'", lex_.peek().text));
    return lex_.next();
  }
  std::string expect_string() {
    if (lex_.peek().kind != Token::string) lex_.fail("IR0002", lex_.peek(), "expected a string");
    return lex_.next().text;
  }
  u64 number() {
    const Token t = lex_.next();
    u64 v = 0;
    const auto r = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
    if (t.kind != Token::number || r.ec != std::errc{} || r.ptr != t.text.data() + t.text.size())
      lex_.fail("IR0002", t, fmt::format("expected a whole number, not '{}'", t.text));
    return v;
  }

  DType dtype() {
    const Token t = lex_.next();
    const DType d = dtype_from_name(t.text);
    if (d == DType::none)
      lex_.fail("IR0005", t, fmt::format("'{}' is no element type", t.text),
                "bool, i8..i64, u8..u64, f16, bf16, f32, f64 or index");
    return d;
  }
  Type type() {
    const auto shape = [&](Type t) {
      if (!take("[")) return t;
      t.rows = static_cast<u16>(number());
      expect_word("x");
      t.cols = static_cast<u16>(number());
      if (take(",")) {
        const Token s = lex_.next();
        if (s.text == "b32")
          t.swizzle = Swizzle::b32;
        else if (s.text == "b64")
          t.swizzle = Swizzle::b64;
        else if (s.text == "b128")
          t.swizzle = Swizzle::b128;
        else
          lex_.fail("IR0005", s, fmt::format("'{}' is no swizzle", s.text), "b32, b64 or b128");
      }
      expect("]");
      return t;
    };
    const Token t = lex_.peek();
    if (take_word("global")) return Type::memory(Space::global, dtype());
    if (take_word("thread")) return Type::memory(Space::priv, dtype());
    if (take_word("shared")) return shape(Type::memory(Space::shared, dtype()));
    if (take_word("tile")) return shape(Type::tile(dtype(), 0, 0));
    if (take_word("view")) return shape(Type::view(dtype(), 0, 0, Swizzle::none));
    if (take_word("acc")) return shape(Type::acc(dtype(), 0, 0));
    if (take_word("pipe")) return Type::object(TypeKind::pipe);
    if (take_word("turn")) return Type::object(TypeKind::turn);
    if (take_word("frag")) {
      const Type s = shape(Type::tile(dtype(), 0, 0));
      if (s.rows == 0 || s.cols == 0 || s.rows % 64 || s.cols % 8 ||
          u32{s.rows} * s.cols > 255 * Type::warpgroup_threads)
        lex_.fail("IR0005", t, "a fragment has a multiple of 64 rows and of 8 columns", "frag f32[64 x 128]");
      return Type::frag(s.elem, s.rows, s.cols);
    }
    if (take_word("rows")) {
      const DType elem = dtype();
      expect("[");
      const u64 rows = number();
      expect("]");
      if (rows == 0 || rows % 64 || rows > 1024) lex_.fail("IR0005", t, "rows are a multiple of 64", "rows f32[64]");
      return Type::row_values(elem, static_cast<u16>(rows));
    }
    lex_.next();
    const auto x = t.text.find('x');
    const bool vector = x != std::string::npos && dtype_from_name(t.text) == DType::none;
    const DType d = dtype_from_name(vector ? t.text.substr(0, x) : t.text);
    const std::string lanes = vector ? t.text.substr(x + 1) : "1";
    if (d == DType::none || (vector && lanes != "2" && lanes != "4" && lanes != "8" && lanes != "16"))
      lex_.fail("IR0005", t, fmt::format("'{}' is no type", t.text), "f32, f16x4, shared f32, tile f32[32 x 32], ...");
    return Type::value(d, static_cast<u8>(std::atoi(lanes.c_str())));
  }

  // A value by name, or a literal, which becomes a constant here.
  OpId operand() {
    const Token t = lex_.next();
    if (t.kind == Token::value) {
      const auto it = values_.find(t.text);
      if (it == values_.end()) lex_.fail("IR0006", t, fmt::format("{} is not defined above", t.text));
      return it->second;
    }
    if (t.kind == Token::word && (t.text == "true" || t.text == "false")) {
      const Type of = lex_.glued() && take(":") ? type() : bool_type;  // true:boolx4 is a splat
      if (!of.is_bool()) lex_.fail("IR0007", t, fmt::format("'{}' is no constant of type {}", t.text, to_string(of)));
      return constant(of, t.text == "true");
    }
    std::string text = t.text;
    u64 nan_bits = 0;
    bool is_nan = false;
    if (t.kind == Token::word && text == "nan") {
      expect("(");
      const Token bits = lex_.next();
      nan_bits = std::strtoull(bits.text.c_str(), nullptr, 16);
      expect(")");
      is_nan = true;
    } else if (t.kind != Token::number && text != "inf") {
      lex_.fail("IR0002", t, fmt::format("expected a value or a constant before '{}'", t.text));
    }
    if (!lex_.glued() || !take(":")) {
      char* stop = nullptr;
      const i64 v = std::strtoll(text.c_str(), &stop, 10);
      if (*stop) lex_.fail("IR0007", t, fmt::format("'{}' is no index constant", text), "write its type: 1.5:f32");
      return constant(index_type, static_cast<u64>(v));
    }
    const Type ty = type();
    if (is_nan) return constant(ty, nan_bits);
    char* stop = nullptr;
    u64 bits = 0;
    switch (ty.elem) {
      case DType::f64:
        bits = std::bit_cast<u64>(std::strtod(text.c_str(), &stop));
        break;
      case DType::f32:
        bits = std::bit_cast<u32>(std::strtof(text.c_str(), &stop));
        break;
      case DType::f16:
        bits = f64_to_f16_bits(std::strtod(text.c_str(), &stop));
        break;
      case DType::bf16:
        bits = f64_to_bf16_bits(std::strtod(text.c_str(), &stop));
        break;
      case DType::u64:
        bits = std::strtoull(text.c_str(), &stop, 10);
        break;
      case DType::boolean:
      case DType::none:
        break;
      default:
        bits = static_cast<u64>(std::strtoll(text.c_str(), &stop, 10));
        break;
    }
    if (!stop || *stop) lex_.fail("IR0007", t, fmt::format("'{}' is no constant of type {}", text, to_string(ty)));
    if (const u32 n = dtype_bits(ty.elem); n < 64) bits &= (1ull << n) - 1;
    return constant(ty, bits);
  }
  OpId constant(Type ty, u64 bits) {
    const OpId id = k_.create(Opcode::Const, ty, {}, bits);
    k_.append(region_, id);
    return id;
  }

  LocId location() {
    if (!take("!")) return 0;
    u64 file = 0, line = number();
    if (take(":")) file = line, line = number();
    if (file >= files_.size()) lex_.fail("IR0002", lex_.peek(), "a location in a file that is not declared");
    return k_.intern_location(files_[file], static_cast<int>(line));
  }

  void define(const Token& t, OpId id) {
    if (!values_.emplace(t.text, id).second) lex_.fail("IR0004", t, fmt::format("{} is defined twice", t.text));
  }

  u64 immediate(const Token& op, const OpInfo& i) {
    if (i.imm == ImmKind::Text || i.imm == ImmKind::Roles) return k_.intern_text(expect_string());
    std::vector<Token> words;
    if (take("<")) {
      do {
        words.push_back(lex_.next());
        if (words.back().text == "align") words.push_back(lex_.next());
      } while (take(","));
      expect(">");
    }
    const auto need = [&](std::size_t n) {
      if (words.size() != n)
        lex_.fail("IR0008", op, fmt::format("{} takes {} words in <>, not {}", op.text, n, words.size()));
    };
    const auto pick = [&]<class E>(const Token& t, int count, E) {
      E e{};
      if (!from_name<E>(t.text, count, e))
        lex_.fail("IR0008", t, fmt::format("'{}' means nothing to {}", t.text, op.text));
      return e;
    };
    const auto whole = [&](const Token& t) {
      u64 v = 0;
      const auto r = std::from_chars(t.text.data(), t.text.data() + t.text.size(), v);
      if (r.ec != std::errc{} || r.ptr != t.text.data() + t.text.size())
        lex_.fail("IR0008", t, fmt::format("'{}' is no whole number", t.text));
      return v;
    };
    switch (i.imm) {
      case ImmKind::U32:
      case ImmKind::Length:
        need(1);
        return whole(words[0]);
      case ImmKind::Axis:
        need(1);
        if (words[0].text.size() != 1 || words[0].text[0] < 'x' || words[0].text[0] > 'z')
          lex_.fail("IR0008", words[0], "an axis is x, y or z");
        return static_cast<u64>(words[0].text[0] - 'x');
      case ImmKind::Memory: {
        MemoryImm m;
        for (std::size_t n = 0; n < words.size(); ++n) {
          if (words[n].text == "align") {
            const u64 bytes = whole(words[++n]);
            if (bytes == 0 || (bytes & (bytes - 1))) lex_.fail("IR0008", words[n], "an alignment is a power of two");
            m.align_log2 = static_cast<u8>(std::countr_zero(bytes));
          } else
            m.cache = pick(words[n], 3, CachePolicy{});
        }
        return pack(m);
      }
      case ImmKind::Atomic:
        need(3);
        return pack(
            AtomicImm{pick(words[0], 8, AtomicKind{}), pick(words[1], 4, MemoryOrder{}), pick(words[2], 8, Scope{})});
      case ImmKind::Wait:
        need(2);
        return pack(WaitImm{pick(words[0], 6, CompareKind{}), pick(words[1], 8, Scope{})});
      case ImmKind::Signs:
        need(2);
        return pack(SignsImm{words[0].text == "signed", words[1].text == "signed"});
      case ImmKind::Reduce:
        need(1);
        return pack(pick(words[0], 7, ReduceKind{}));
      case ImmKind::Scan:
        if (words.empty() || words.size() > 2) need(1);
        return pack(ScanImm{pick(words[0], 7, ReduceKind{}), words.size() == 2});
      case ImmKind::ScopeOf:
        need(1);
        return pack(pick(words[0], 8, Scope{}));
      case ImmKind::Tile: {
        need(2);
        const DType d = dtype_from_name(words[0].text);
        if (d == DType::none) lex_.fail("IR0008", words[0], "the input format of a tile is an element type");
        return pack(TileImm{d, pick(words[1], 8, Scope{})});
      }
      case ImmKind::Layout: {
        if (words.empty()) need(1);
        LayoutImm l{static_cast<u16>(whole(words[0])), false, false};
        for (std::size_t n = 1; n < words.size(); ++n) {
          if (words[n].text == "at")
            l.a_transposed = true;
          else if (words[n].text == "bt")
            l.b_transposed = true;
          else
            lex_.fail("IR0008", words[n], "a layout is at or bt");
        }
        return pack(l);
      }
      case ImmKind::Mma: {
        if (words.empty()) need(1);
        MmaImm m{static_cast<u16>(whole(words[0])), MmaFormat::native, false, false};
        for (std::size_t n = 1; n < words.size(); ++n) {
          if (words[n].text == "at")
            m.a_transposed = true;
          else if (words[n].text == "bt")
            m.b_transposed = true;
          else
            m.format = pick(words[n], 3, MmaFormat{});
        }
        return pack(m);
      }
      case ImmKind::Copy: {
        CopyImm c;
        for (const Token& w : words) {
          if (w.text == "multicast")
            c.multicast = true;
          else
            c.cache = pick(w, 3, CachePolicy{});
        }
        return pack(c);
      }
      default:
        need(0);
        return 0;
    }
  }

  void region(RegionId r) {
    const RegionId outer = region_;
    region_ = r;
    while (!is("}")) {
      if (done()) lex_.fail("IR0002", lex_.peek(), "the text ends inside a region: a '}' is missing");
      op();
    }
    // A region without values may leave its yield out.
    const OpId last = k_.terminator(r);
    if (r != k_.body() && (last == none || k_.op(last).code != Opcode::Yield))
      k_.append(r, k_.create(Opcode::Yield, none_type, {}));
    region_ = outer;
  }

  std::vector<Type> result_types() {
    std::vector<Type> types;
    if (take(":")) do
        types.push_back(type());
      while (take(","));
    return types;
  }

  void add_results(OpId id, const std::vector<Token>& names, const std::vector<Type>& types, const Token& at) {
    if (names.size() != types.size())
      lex_.fail("IR0009", at, fmt::format("{} names for {} results", names.size(), types.size()));
    const OpId self[] = {id};
    for (std::size_t i = 0; i < names.size(); ++i) {
      const OpId result = k_.create(Opcode::Result, types[i], self, i, k_.op(id).loc);
      k_.append(region_, result);
      define(names[i], result);
    }
  }

  void op() {
    std::vector<Token> names;
    while (lex_.peek().kind == Token::value) {
      names.push_back(lex_.next());
      if (!take(",")) break;
    }
    if (!names.empty()) expect("=");
    const Token word = lex_.next();
    Opcode code{};
    if (word.kind != Token::word || !opcode_from_text(word.text, code))
      lex_.fail("IR0010", word, fmt::format("'{}' is no op", word.text));
    if (code == Opcode::For) return loop(names, word);
    const auto& i = info(code);
    const u64 imm = immediate(word, i);
    std::vector<OpId> operands;
    const auto starts_operand = [&] {
      const auto& t = lex_.peek();
      if (t.kind == Token::value || t.kind == Token::number) return true;
      return t.kind == Token::word && (t.text == "true" || t.text == "false" || t.text == "inf" || t.text == "nan");
    };
    // A value that starts the next line ("%3 = ...") is not an operand: operands stay on the op's line.
    while (starts_operand() && lex_.peek().line == word.line) {
      operands.push_back(operand());
      if (take("[")) {
        operands.push_back(operand());
        expect("]");
      }
      if (!take(",")) break;
    }
    if (i.has(HasRegions)) return branch(code, names, word, operands, imm);
    const auto types = result_types();
    const LocId loc = location();
    const Type stated = types.empty() ? none_type : types[0];
    const auto [made, problem] = infer(k_, code, operands, imm, stated);
    if (!problem.empty()) lex_.fail("IR0101", word, problem);
    if ((made.kind != TypeKind::none) != (names.size() == 1))
      lex_.fail("IR0009", word, fmt::format("{} has {} result", word.text, made.kind != TypeKind::none ? "one" : "no"));
    if (!types.empty() && made != types[0])
      lex_.fail("IR0101", word, fmt::format("{} gives {}, not {}", word.text, to_string(made), to_string(types[0])));
    const OpId id = k_.create(code, made, operands, imm, loc);
    k_.append(region_, id);
    if (!names.empty()) define(names[0], id);
  }

  void loop(const std::vector<Token>& names, const Token& word) {
    const Token iv = expect_value();
    expect("=");
    std::vector<OpId> operands{operand()};
    expect_word("to");
    operands.push_back(operand());
    expect_word("step");
    operands.push_back(operand());
    std::vector<Token> carried;
    if (take_word("carry")) {
      expect("(");
      do {
        carried.push_back(expect_value());
        expect("=");
        operands.push_back(operand());
      } while (take(","));
      expect(")");
    }
    UntilImm until;
    if (take_word("until")) {
      expect("(");
      until.carried_plus_one = static_cast<u32>(number()) + 1;
      expect(")");
    }
    const auto types = result_types();
    expect("{");
    const LocId loc = location();
    const OpId id = k_.create(Opcode::For, none_type, operands, pack(until), loc, 1);
    k_.append(region_, id);
    const RegionId body = k_.region_of(id, 0);
    define(iv, k_.add_arg(body, k_.type(operands[0]), loc));
    for (std::size_t n = 0; n < carried.size(); ++n)
      define(carried[n], k_.add_arg(body, k_.type(operands[n + 3]), loc));
    region(body);
    expect("}");
    add_results(id, names, types, word);
  }

  void branch(Opcode code, const std::vector<Token>& names, const Token& word, const std::vector<OpId>& operands,
              u64 imm) {
    const auto types = result_types();
    const u32 regions = code == Opcode::If ? 2
                                           : static_cast<u32>(std::max<std::ptrdiff_t>(
                                                 1, 1 + std::count(k_.texts[imm].begin(), k_.texts[imm].end(), ';')));
    expect("{");
    const LocId loc = location();
    const OpId id = k_.create(code, none_type, operands, imm, loc, regions);
    k_.append(region_, id);
    for (u32 i = 0; i < regions; ++i) {
      if (i > 0) {
        if (!take_word("else")) {
          k_.append(k_.region_of(id, i), k_.create(Opcode::Yield, none_type, {}));
          continue;
        }
        expect("{");
      }
      region(k_.region_of(id, i));
      expect("}");
    }
    add_results(id, names, types, word);
  }

  Lexer lex_;
  Kernel k_;
  RegionId region_ = 0;
  std::map<std::string, OpId> values_;
  std::vector<std::string> files_;
};
}  // namespace

Kernel parse(std::string_view text, std::string_view file) {
  auto all = parse_all(text, file);
  if (all.size() != 1)
    throw Error("IR0011", fmt::format("{} holds {} kernels where one is expected", file, all.size()));
  return std::move(all[0]);
}

std::vector<Kernel> parse_all(std::string_view text, std::string_view file) {
  Parser parser(text, file);
  std::vector<Kernel> out;
  while (!parser.done()) out.push_back(parser.kernel());
  return out;
}

}  // namespace iron::ir
