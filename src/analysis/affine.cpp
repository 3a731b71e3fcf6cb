#include "analysis/affine.h"

#include <algorithm>

namespace iron::analysis {

using namespace ir;

Polynomial Polynomial::constant(i64 c) {
  Polynomial p;
  if (c) p.terms[{}] = c;
  return p;
}
Polynomial Polynomial::leaf(OpId id) {
  Polynomial p;
  p.terms[{id}] = 1;
  return p;
}
std::optional<i64> Polynomial::as_constant() const {
  if (terms.empty()) return 0;
  if (terms.size() == 1 && terms.begin()->first.empty()) return terms.begin()->second;
  return std::nullopt;
}
bool Polynomial::depends_on(OpId leaf) const {
  return std::any_of(terms.begin(), terms.end(),
                     [&](const auto& t) { return std::find(t.first.begin(), t.first.end(), leaf) != t.first.end(); });
}
Polynomial Polynomial::without(OpId leaf) const {
  Polynomial p;
  for (const auto& [product, c] : terms)
    if (std::find(product.begin(), product.end(), leaf) == product.end()) p.terms[product] = c;
  return p;
}
std::optional<Polynomial> Polynomial::coefficient_of(OpId leaf) const {
  Polynomial p;
  for (const auto& [product, c] : terms) {
    const auto n = std::count(product.begin(), product.end(), leaf);
    if (n == 0) continue;
    if (n > 1) return std::nullopt;
    auto rest = product;
    rest.erase(std::find(rest.begin(), rest.end(), leaf));
    p.terms[rest] = c;
  }
  return p;
}

namespace {
void add_term(Polynomial& p, const std::vector<OpId>& product, i64 c) {
  auto& sum = p.terms[product];
  sum += c;
  if (sum == 0) p.terms.erase(product);
}
}  // namespace

Polynomial Polynomial::operator+(const Polynomial& o) const {
  Polynomial p = *this;
  for (const auto& [product, c] : o.terms) add_term(p, product, c);
  return p;
}
Polynomial Polynomial::operator-(const Polynomial& o) const {
  Polynomial p = *this;
  for (const auto& [product, c] : o.terms) add_term(p, product, -c);
  return p;
}
Polynomial Polynomial::operator*(const Polynomial& o) const {
  Polynomial p;
  for (const auto& [a, ca] : terms)
    for (const auto& [b, cb] : o.terms) {
      std::vector<OpId> product = a;
      product.insert(product.end(), b.begin(), b.end());
      std::sort(product.begin(), product.end());
      add_term(p, product, ca * cb);
    }
  return p;
}

const Polynomial& Affine::of(OpId value) {
  if (const auto it = known_.find(value); it != known_.end()) return it->second;
  const auto& op = k_.op(value);
  Polynomial p = Polynomial::leaf(value);
  i64 c = 0;
  if (const_index(k_, value, c) && op.type.is_index())
    p = Polynomial::constant(c);
  else if (op.type.is_index()) {
    // Products of many sums would explode; past this size a value is a leaf of its own.
    constexpr std::size_t limit = 32;
    const auto at = [&](u32 i) -> const Polynomial& { return of(k_.operand(value, i)); };
    switch (op.code) {
      case Opcode::Add:
        p = at(0) + at(1);
        break;
      case Opcode::Sub:
        p = at(0) - at(1);
        break;
      case Opcode::Neg:
        p = Polynomial{} - at(0);
        break;
      case Opcode::Mul:
        if (at(0).terms.size() * at(1).terms.size() <= limit) p = at(0) * at(1);
        break;
      case Opcode::Shl:
        if (const_index(k_, k_.operand(value, 1), c) && c >= 0 && c < 62) p = at(0) * Polynomial::constant(i64{1} << c);
        break;
      case Opcode::Cast: {
        const OpId from = k_.operand(value, 0);
        if (const_index(k_, from, c))
          p = Polynomial::constant(c);
        else if (k_.op(from).code == Opcode::Param)
          p = Polynomial::leaf(from);
        break;
      }
      case Opcode::AssumeUniform:
        p = at(0);
        break;
      default:
        break;
    }
    if (p.terms.size() > limit) p = Polynomial::leaf(value);
  }
  return known_[value] = std::move(p);
}

std::optional<i64> Affine::distance(OpId a, OpId b) { return (of(b) - of(a)).as_constant(); }

}  // namespace iron::analysis
