// Index arithmetic as polynomials over leaves: parameters, ids, induction variables.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "ir/kernel.h"

namespace iron::analysis {

/// Sum of coefficient * product of leaves. The empty product is the constant term. Leaves are ids of ops that the
/// analysis does not look through; a cast of a parameter to index counts as the parameter itself.
struct Polynomial {
  std::map<std::vector<ir::OpId>, i64> terms;  ///< no zero coefficients

  static Polynomial constant(i64 c);
  static Polynomial leaf(ir::OpId id);
  std::optional<i64> as_constant() const;
  /// The polynomial p with this = p * leaf + rest where rest is free of the leaf; nothing if the leaf occurs squared.
  std::optional<Polynomial> coefficient_of(ir::OpId leaf) const;
  Polynomial without(ir::OpId leaf) const;  ///< the terms that do not name the leaf
  bool depends_on(ir::OpId leaf) const;
  Polynomial operator+(const Polynomial&) const;
  Polynomial operator-(const Polynomial&) const;
  Polynomial operator*(const Polynomial&) const;
  bool operator==(const Polynomial&) const = default;
};

/// Polynomials of index values, computed on demand and kept. Only `index` arithmetic is looked through: it does not
/// wrap.
class Affine {
 public:
  explicit Affine(const ir::Kernel& k) : k_(k) {}
  const Polynomial& of(ir::OpId value);
  /// b - a when it is a constant.
  std::optional<i64> distance(ir::OpId a, ir::OpId b);

 private:
  const ir::Kernel& k_;
  std::map<ir::OpId, Polynomial> known_;
};

}  // namespace iron::analysis
