// kernel_inline: a call becomes the body of the kernel that it names. Keeps every bit.
#include <fmt/format.h>

#include <algorithm>

#include "passes/pass.h"
#include "passes/rewrite.h"

namespace iron::passes {

using namespace ir;

namespace {
class Inliner {
 public:
  Inliner(Kernel& k, PassContext& context) : k_(k), context_(context) {}

  Changed run() {
    std::vector<OpId> calls;
    k_.walk([&](OpId id) {
      if (k_.op(id).code == Opcode::Call) calls.push_back(id);
    });
    std::vector<std::string> path{k_.name};
    for (const OpId call : calls) {
      const RegionId r = k_.op(call).region;
      // The callee is built at the region's end, then what followed the call is put behind it.
      auto& ops = k_.mutable_region(r).ops;
      const auto at = std::find(ops.begin(), ops.end(), call);
      const std::vector<OpId> rest(at + 1, ops.end());
      ops.erase(at, ops.end());
      ValueMap none_yet;
      inline_call(k_, call, k_, r, none_yet, path, call);
      k_.mutable_op(call).region = none;
      auto& now = k_.mutable_region(r).ops;
      now.insert(now.end(), rest.begin(), rest.end());
    }
    k_.callees.clear();
    return !calls.empty();
  }

 private:
  [[noreturn]] void fail(std::string code, OpId call, std::string message, std::string fix) const {
    Diagnostic d;
    d.code = std::move(code), d.message = std::move(message), d.fix = std::move(fix);
    d.kernel = k_.name, d.file = k_.location(call).file, d.line = k_.location(call).line;
    throw Error(std::move(d));
  }

  // Appends the body of the kernel that `call` names. `at` is the outermost call, where errors point.
  void inline_call(const Kernel& from, OpId call, Kernel& to, RegionId region, const ValueMap& map,
                   std::vector<std::string>& path, OpId at) {
    const std::string callee_name = from.texts[from.op(call).imm];
    if (std::find(path.begin(), path.end(), callee_name) != path.end())
      fail("IR0301", at,
           fmt::format("the call of {} is recursive: {} calls itself by way of {}", callee_name, callee_name,
                       fmt::join(path, " -> ")),
           "kernels are inlined where they are called; write a loop instead");
    const Kernel* found = find(from, callee_name);
    if (!found)
      fail("D17", at, fmt::format("no kernel is called {}", callee_name),
           "register the kernel before it is called, or correct the name");
    const Kernel& callee = *found;
    if (callee.mode != k_.mode)
      fail("D01", at,
           fmt::format("{} is a kernel of mode {}, the caller is {}", callee_name, name(callee.mode), name(k_.mode)),
           "call kernels of the caller's own mode");
    const std::vector<OpId> given(from.operands(call).begin(), from.operands(call).end());
    if (given.size() != callee.params.size())
      fail("D18", at,
           fmt::format("{} takes {} arguments, {} are given", callee_name, callee.params.size(), given.size()),
           "give one argument for each parameter, in order");
    ValueMap values;
    for (std::size_t i = 0; i < given.size(); ++i) {
      const auto it = map.find(given[i]);
      const OpId value = it == map.end() ? given[i] : it->second;
      argument(callee, callee.params[i], value, at);
      values[callee.params[i].op] = value;
    }
    path.push_back(callee_name);
    copy(callee, callee.body(), to, region, values, path, at);
    path.pop_back();
    context_.done(k_, at, fmt::format("inlined {}", callee_name));
  }

  // A recorded kernel brings what it calls; a file of kernels is a registry.
  const Kernel* find(const Kernel& from, std::string_view name) const {
    if (const auto it = from.callees.find(name); it != from.callees.end()) return it->second.get();
    if (!context_.kernels) return nullptr;
    const auto it = context_.kernels->find(name);
    return it == context_.kernels->end() ? nullptr : it->second;
  }

  void argument(const Kernel& callee, const Param& param, OpId value, OpId at) const {
    const Type type = k_.type(value);
    if (param.is_buffer() ? !type.is_memory() || type.elem != param.elem : type != Type::value(param.elem))
      fail("D18", at,
           fmt::format("parameter {} of {} is {} {}, the argument is {}", param.name, callee.name, name(param.kind),
                       dtype_name(param.elem), to_string(type)),
           "pass a value of the parameter's type");
    if (param.kind != ParamKind::out && param.kind != ParamKind::inout) return;
    const OpId root = memory_root(k_, value);
    if (k_.op(root).code == Opcode::Param && k_.params[k_.op(root).imm].kind == ParamKind::in)
      fail("D24", at,
           fmt::format("{} writes its parameter {}, the argument {} is an input", callee.name, param.name,
                       k_.params[k_.op(root).imm].name),
           "declare it Out<T> or InOut<T>");
  }

  void copy(const Kernel& from, RegionId source, Kernel& to, RegionId region, ValueMap& values,
            std::vector<std::string>& path, OpId at) {
    for (const OpId id : from.region(source).ops) {
      const auto code = from.op(id).code;
      if (code == Opcode::Param) continue;
      if (code == Opcode::Call) {
        inline_call(from, id, to, region, values, path, at);
        continue;
      }
      const bool nested_call = from.op(id).region_count > 0 && holds_call(from, id);
      if (!nested_call) {
        clone_op(from, id, to, region, values);
        continue;
      }
      std::vector<OpId> operands;
      for (const OpId v : from.operands(id)) operands.push_back(values.at(v));
      const auto& place = from.location(id);
      const LocId loc = place.line ? to.intern_location(place.file, place.line) : 0;
      u64 imm = from.op(id).imm;
      if (from.info_of(id).imm == ImmKind::Roles) imm = to.intern_text(from.texts[imm]);
      const OpId made = to.create(code, from.type(id), operands, imm, loc, from.op(id).region_count);
      to.append(region, made);
      values[id] = made;
      for (u32 i = 0; i < from.op(id).region_count; ++i) {
        const RegionId inner = from.region_of(id, i);
        for (const OpId arg : from.region(inner).args)
          values[arg] = to.add_arg(to.region_of(made, i), from.type(arg), loc);
        copy(from, inner, to, to.region_of(made, i), values, path, at);
      }
    }
  }

  static bool holds_call(const Kernel& k, OpId id) {
    bool found = false;
    for (u32 i = 0; i < k.op(id).region_count; ++i)
      k.walk(k.region_of(id, i), [&](OpId inner) { found |= k.op(inner).code == Opcode::Call; });
    return found;
  }

  Kernel& k_;
  PassContext& context_;
};
}  // namespace

Changed run_kernel_inline(Kernel& k, PassContext& context) { return Inliner(k, context).run(); }

}  // namespace iron::passes
