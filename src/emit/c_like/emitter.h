// Writes one optimised kernel as C-like text: names, regions, control flow. Ops are written by the dialect's table.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "emit/c_like/dialect.h"
#include "ir/launch.h"
#include "ir/tier.h"

namespace iron::emit {

/// Parts of the tier's emission rules that tests leave out, to see that the gate notices.
enum LeaveOut : u32 { no_fence = 1u << 0, no_pin = 1u << 1, no_unroll_1 = 1u << 2 };
/// How tiles use matrix units: where one fits, never, or always (and what does not fit is refused).
enum class MatrixUse : u8 { automatic, software, required };

struct EmitOptions {
  Dim3 threads;  ///< threads of a threadgroup: constants in the text
  bool index_is_32 = false;
  u64 static_shared_limit = 48 * 1024;
  bool await_predecessor = false;
  u32 leave_out = 0;  ///< LeaveOut bits
  MatrixUse matrix = MatrixUse::software;
  bool async_copies = false;  ///< the device has copies that threads start; else they are stores
};

struct Source {
  std::string text;
  std::string entry;  ///< the kernel's name in the text
  std::vector<ArgSlot> args;
  u64 static_shared_bytes = 0;
  u64 dynamic_shared_bytes = 0;      ///< what the launch must ask for
  bool awaits_predecessor = false;   ///< it may be launched before the kernel that it follows has ended
  std::vector<ir::TensorBox> boxes;  ///< of the tensor parameters
  u32 cluster = 1;                   ///< threadgroups of a cluster; the grid is a multiple of it along x
  bool tier = false;                 ///< has ops of the Hopper tier: spills and serialised products are errors
};

/// What a dialect keeps while it writes one kernel.
struct Extension {
  virtual ~Extension() = default;
};

class Emitter {
 public:
  Emitter(const ir::Kernel& k, const Dialect& dialect, const EmitOptions& options);
  /// Throws iron::Error: EMIT01 for an op that is refused, D02 for a threadgroup that simd ops cannot have.
  Source run();

  // --- what rows read
  const ir::Kernel& kernel() const { return k_; }
  const Dialect& dialect() const { return d_; }
  const EmitOptions& options() const { return options_; }
  const std::string& entry() const { return entry_; }
  u32 threads() const { return static_cast<u32>(options_.threads.count()); }
  u32 simdgroups() const { return (threads() + 31) / 32; }
  /// The expression of an operand, for one element of a vector.
  const Expr& arg(ir::OpId id, u32 operand, u32 lane = 0) const { return values_[k_.operand(id, operand)].at(lane); }
  const Expr& value(ir::OpId id, u32 lane = 0) const { return values_[id].at(lane); }
  std::string_view type_name(DType t) const { return d_.type_name(t); }
  std::string_view type_name(ir::Type t) const { return d_.type_name(t.elem); }
  Expr literal(DType elem, u64 bits);
  Expr index_literal(i64 value) { return literal(DType::index, static_cast<u64>(value)); }
  /// A value of one op of the table on other expressions: the step of a reduction, say.
  Expr apply(ir::Opcode code, DType type, std::initializer_list<Expr> args);
  const std::string& param_name(u32 param) const { return param_names_[param]; }
  bool read_only(ir::OpId mem) const;

  /// How a thread holds a value: 16-bit fragments lie in words, two elements each.
  u32 registers(ir::Type t) const { return packed(t) ? t.lanes / 2u : t.lanes; }
  std::string_view register_type(ir::Type t) const { return d_.type_name(packed(t) ? DType::u32 : t.elem); }
  static bool packed(ir::Type t) { return t.is_frag() && is_float(t.elem) && dtype_size(t.elem) == 2; }
  const std::vector<ir::OpId>& users(ir::OpId id) const { return users_[id]; }
  /// Its value is used once, in its own region: it may be written where it is used.
  bool used_once_here(ir::OpId id) const {
    return users_[id].size() == 1 && k_.op(users_[id][0]).region == k_.op(id).region;
  }
  template <class T>
  T& extension() {
    if (!extension_) extension_ = std::make_unique<T>(*this);
    return static_cast<T&>(*extension_);
  }

  // --- what rows write
  void line(ir::OpId at, const std::string& text);
  void line(const std::string& text);
  void open(const std::string& text);  ///< a line that ends in an opening brace
  void close(const std::string& text = "}");
  void reopen() { ++depth_; }  ///< after a closing line that opens the next block
  std::string fresh(std::string_view hint);
  void set(ir::OpId id, std::vector<Expr> lanes) { values_[id] = std::move(lanes); }
  /// A vector of 16-bit elements that also lies in words of two: whoever moves it on whole moves those.
  void set_words(ir::OpId id, std::vector<Expr> words) { words_[id] = std::move(words); }
  const std::vector<Expr>* words(ir::OpId id) const {
    const auto it = words_.find(id);
    return it == words_.end() ? nullptr : &it->second;
  }
  /// Declares a constant of the op's type and makes it the op's value.
  void define(ir::OpId id, std::string_view hint, const std::vector<Expr>& lanes);
  Expr name(ir::OpId at, std::string_view type, std::string_view hint, const Expr& value);
  /// A call of a helper, whose text is then part of the source.
  Expr call(std::string_view helper, std::initializer_list<Expr> args);
  Expr call(std::string_view helper, std::string_view template_args, std::initializer_list<Expr> args);
  std::string need(std::string_view helper);
  /// A helper made for this kernel, by name; the text is made on first need. It may need others.
  std::string made(const std::string& helper, const std::function<std::string()>& text);
  /// Threadgroup memory that an op owns beside the kernel's own, for one value a simdgroup: "partials".
  std::string partials();
  std::string shared(ir::OpId id, std::string_view hint, DType elem, u64 count, u32 align);
  /// The 32-bit shared address of such an array; its kernel's threadgroup memory is then one block that the launch
  /// sizes.
  std::string address(const std::string& shared_array);
  /// `count` names: "acc0", "acc1", ...
  std::vector<std::string> fresh_names(std::string_view hint, u32 count);
  std::string length_of_param(u32 param);
  std::string items();
  std::string linear_thread();
  [[noreturn]] void refuse(ir::OpId id, std::string_view why, std::string_view fix = {}) const;

  // --- control flow, for the rows of For and If
  void region(ir::RegionId r);
  /// From here on loops at run time are kept as loops (rule of the Hopper tier), or no longer.
  void keep_loops(bool on) { keep_loops_ = on; }
  void emit_for(ir::OpId id);
  void emit_if(ir::OpId id);

 private:
  struct SharedArray {
    std::string name, type;
    u64 count, bytes;
    u32 align;
    bool addressed = false;
  };
  void mark_live();
  void check_launchable() const;
  void op(ir::OpId id);
  void lanes(ir::OpId id, const Row& row);
  bool in_place(ir::OpId id) const;
  void assign(ir::OpId yield, const std::vector<std::vector<std::string>>& targets);
  std::string capture(const std::function<void()>& write);
  const Helper* find_helper(std::string_view name) const;
  std::string shared_declarations(Source& out, const std::string& body);

  const ir::Kernel& k_;
  const Dialect& d_;
  EmitOptions options_;
  std::string entry_, out_;
  int depth_ = 1;
  std::vector<std::string> param_names_;
  std::set<std::string, std::less<>> taken_;
  std::map<std::string, int, std::less<>> counters_;
  std::vector<std::vector<Expr>> values_;
  std::map<ir::OpId, std::vector<Expr>> words_;
  std::vector<std::vector<ir::OpId>> users_;
  std::vector<bool> live_;
  std::vector<std::string> helper_texts_;
  std::set<std::string, std::less<>> helpers_seen_;
  std::vector<SharedArray> shared_;
  std::set<u32> lengths_;
  bool items_ = false, partials_ = false, keep_loops_ = false, addressed_ = false;
  std::unique_ptr<Extension> extension_;
  ir::LocId shown_ = 0;
};

}  // namespace iron::emit
