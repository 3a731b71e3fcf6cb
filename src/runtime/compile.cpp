#include "runtime/compile.h"

#include <map>
#include <mutex>

#include "analysis/verify.h"
#include "ir/text.h"
#include "passes/expand_math.h"
#include "passes/pipeline.h"
#include "passes/rewrite.h"

namespace iron::runtime {

namespace {
// The interpreter and the CPU have no approximate instructions.
bool keeps_fast(std::string_view backend) { return backend != "interpreter" && backend != "cpu"; }
}  // namespace

std::shared_ptr<const Compiled> compile_anew(std::string_view backend,
                                             const std::shared_ptr<const ir::Kernel>& recorded) {
  auto c = std::make_shared<Compiled>();
  c->recorded = recorded;
  auto k = std::make_shared<ir::Kernel>(*recorded);
  passes::PassOptions options;
  options.verify = true;
  passes::run_pipeline(*k, options);
  if (!keeps_fast(backend)) passes::expand_fast(*k);
  if (passes::expand_math(*k) > 0) {  // two expansions of one argument share their reduction
    static const std::vector<std::string> clean{"const_fold", "algebraic_simplify", "cse", "dead_store_elim"};
    passes::run_passes(*k, clean, options);
  }
  *k = passes::compact(*k);  // keeps the order that `schedule` chose; identity is canonical by itself
  auto problems = analysis::verify(*k, "lowering");
  if (!problems.empty()) throw Error(std::move(problems));
  c->identity = ir::identity(*k);
  c->contract = analysis::derive(*k);
  c->optimised = std::move(k);
  return c;
}

std::shared_ptr<const Compiled> compile_for(std::string_view backend,
                                            const std::shared_ptr<const ir::Kernel>& recorded) {
  static std::mutex mutex;
  static std::map<std::pair<std::string, bool>, std::shared_ptr<const Compiled>> known;
  const auto key = std::pair(ir::identity(*recorded), keeps_fast(backend));
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(key); it != known.end()) return it->second;
  }
  auto made = compile_anew(backend, recorded);
  const std::lock_guard lock(mutex);
  return known.emplace(key, std::move(made)).first->second;
}

}  // namespace iron::runtime
