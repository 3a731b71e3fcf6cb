// The manifest as JSON.
#include "analysis/manifest.h"

#include <nlohmann/json.hpp>

#include <set>

#include "analysis/contract.h"
#include "analysis/determinism.h"
#include "core/hash.h"
#include "ir/text.h"

namespace iron::analysis {

using namespace ir;
using nlohmann::ordered_json;

std::vector<std::string> capability_atoms(const Kernel& k) {
  std::set<std::string> atoms;
  k.walk([&](OpId id) {
    if (const auto& i = k.info_of(id); !i.atom.empty()) atoms.emplace(i.atom);
    const Type t = k.type(id);
    if (t.elem == DType::f64) atoms.emplace("f64");
  });
  return {atoms.begin(), atoms.end()};
}

ordered_json manifest(const Kernel& k) {
  const Contract c = derive(k);
  ordered_json out;
  out["kernel"] = k.name;
  out["identity"] = hash128(identity(k)).hex();
  out["mode"] = name(k.mode);
  out["numerics"] = name(k.numerics);
  if (!k.spec.empty()) out["spec"] = k.spec;
  out["file"] = k.file;

  ordered_json params = ordered_json::array();
  for (std::size_t i = 0; i < k.params.size(); ++i) {
    const auto& p = k.params[i];
    ordered_json one{{"name", p.name}, {"kind", name(p.kind)}, {"dtype", dtype_name(p.elem)}};
    if (p.is_buffer()) one["alignment"] = c.alignments()[i];
    params.push_back(std::move(one));
  }
  out["parameters"] = std::move(params);

  out["requirements"] = {{"threads_multiple", c.uses_simdgroups() ? 32 : 1},
                         {"whole_simdgroups", c.uses_simdgroups()},
                         {"shared_bytes", c.shared_bytes()},
                         {"width_generic", k.width_generic},
                         {"outputs_disjoint", true}};
  out["capabilities"] = capability_atoms(k);

  ordered_json assumptions = ordered_json::array();
  k.walk([&](OpId id) {
    const Opcode code = k.op(id).code;
    if (code != Opcode::Assume && code != Opcode::AssumeUniform) return;
    ordered_json one{{"reason", code == Opcode::Assume ? k.texts[k.op(id).imm] : "a value promised uniform"},
                     {"condition", expression(k, k.operand(id, 0))}};
    if (k.location(id).line) one["file"] = k.location(id).file, one["line"] = k.location(id).line;
    assumptions.push_back(std::move(one));
  });
  out["assumptions"] = std::move(assumptions);

  const Determinism d = infer_determinism(k);
  ordered_json reasons = ordered_json::array();
  for (const auto& r : d.reasons) {
    ordered_json one{{"reason", r.text}};
    if (r.line) one["file"] = r.file, one["line"] = r.line;
    reasons.push_back(std::move(one));
  }
  out["determinism"] = {{"class", to_string(d)}, {"reasons", std::move(reasons)}};
  return out;
}

}  // namespace iron::analysis
