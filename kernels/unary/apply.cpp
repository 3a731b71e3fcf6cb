// The functions of one value that elementwise kernels share.
#include "unary/unary.h"

namespace iron::kernels {

Val<f32> apply(UnaryOp op, const Val<f32>& x) {
  switch (op) {
    case UnaryOp::abs:
      return abs(x);
    case UnaryOp::neg:
      return -x;
    case UnaryOp::sign:
      return sign(x);
    case UnaryOp::floor:
      return floor(x);
    case UnaryOp::ceil:
      return ceil(x);
    case UnaryOp::trunc:
      return trunc(x);
    case UnaryOp::round:
      return round(x);
    case UnaryOp::relu:
      return relu(x);
    case UnaryOp::square:
      return x * x;
    case UnaryOp::identity:
      return x;
    case UnaryOp::sqrt:
      return sqrt(x);
    case UnaryOp::rsqrt:
      return rsqrt(x);
    case UnaryOp::recip:
      return recip(x);
    case UnaryOp::exp:
      return exp(x);
    case UnaryOp::exp2:
      return exp2(x);
    case UnaryOp::log:
      return log(x);
    case UnaryOp::log2:
      return log2(x);
    case UnaryOp::log10:
      return log10(x);
    case UnaryOp::log1p:
      return log1p(x);
    case UnaryOp::expm1:
      return expm1(x);
    case UnaryOp::sin:
      return sin(x);
    case UnaryOp::cos:
      return cos(x);
    case UnaryOp::tan:
      return tan(x);
    case UnaryOp::asin:
      return asin(x);
    case UnaryOp::acos:
      return acos(x);
    case UnaryOp::atan:
      return atan(x);
    case UnaryOp::sinh:
      return sinh(x);
    case UnaryOp::cosh:
      return cosh(x);
    case UnaryOp::tanh:
      return tanh(x);
    case UnaryOp::asinh:
      return asinh(x);
    case UnaryOp::acosh:
      return acosh(x);
    case UnaryOp::atanh:
      return atanh(x);
    case UnaryOp::erf:
      return erf(x);
    case UnaryOp::erfinv:
      return erfinv(x);
    case UnaryOp::sigmoid:
      return sigmoid(x);
    case UnaryOp::silu:
      return silu(x);
    case UnaryOp::gelu:
      return gelu(x);
    case UnaryOp::softplus:
      return softplus(x);
  }
  throw Error("D16", "an unknown function of one value", "use a member of UnaryOp");
}

}  // namespace iron::kernels
