// Equality of results bit for bit between devices: what a case left in its outputs, as one hash.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "bundle.h"
#include "runtime/backend.h"

namespace iron::tool {

/// A hash of every output of the case, whole, where each NaN counts as one and the same.
std::string result_digest(const Case& c);

/// Why the results of a kernel need not be those of another device, if they need not: from the optimised kernel's own
/// ops. There is no list of exceptions.
std::optional<std::string> exempt_from_equality(const Case& c, const std::string& backend);

/// The results that a device's own are compared with: those of another device, run when asked for, or those of a file
/// that `iron test --digests` wrote.
class Reference {
 public:
  /// The name of a backend, or a path. Throws TOOL06 for a file that cannot be read, and what the backend throws.
  explicit Reference(const std::string& what, u64 seed);
  /// The digest of that case; empty if the reference has none.
  std::string digest(const CaseSource& source);
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  u64 seed_;
  runtime::Backend* backend_ = nullptr;
  std::map<std::string, std::string> known_;
};

/// The key of a case in a file of digests.
std::string digest_key(const CaseSource& source);

}  // namespace iron::tool
