// The parts of the verifier in their order.
#include "analysis/verify.h"

#include "analysis/uniformity.h"
#include "analysis/verify_copies.h"
#include "analysis/verify_effects.h"
#include "analysis/verify_tier.h"
#include "ir/verify.h"

namespace iron::analysis {

std::vector<Diagnostic> verify(const ir::Kernel& k, std::string_view after_pass) {
  auto found = ir::verify_structure(k, after_pass);
  if (!found.empty()) return found;
  found = verify_convergence(k, after_pass);
  for (auto& d : verify_effects(k, after_pass)) found.push_back(std::move(d));
  for (auto& d : verify_copies(k, after_pass)) found.push_back(std::move(d));
  for (auto& d : verify_tier(k, after_pass)) found.push_back(std::move(d));
  return found;
}

std::vector<Diagnostic> advise(const ir::Kernel& k) { return advise_effects(k); }

}  // namespace iron::analysis
