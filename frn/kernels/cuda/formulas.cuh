// The paper's formulas for one value (sections 3.1 to 3.4), as kernels/reference.cpp has them. Products and sums that
// may be fused are written as such: every compiler then makes the same bits of them.
#pragma once

#include "frn/kernels/cuda/arguments.h"
#include "frn/kernels/cuda/device.cuh"

namespace frn::kernels::cuda {

// The numbers of one row.
template <typename A>
struct Coefficients {
  A mean;
  A rstd;
  A slope;  // gamma*rstd
  A beta;
  A tau;
  A kappa;
  A xhat_scale;  // dx = slope*dy + xhat_scale*xhat + shift
  A shift;
};

template <typename A>
FRN_DEVICE A parameter(const A* values, int channel, A missing) {
  return values == nullptr ? missing : load_global(values + channel);
}

template <typename T>
FRN_DEVICE Coefficients<Accumulate<T>> coefficients_of(const Arguments<T>& a, int channel, Accumulate<T> mean,
                                                       Accumulate<T> rstd) {
  using A = Accumulate<T>;
  return {mean,
          rstd,
          parameter(a.gamma, channel, A(1)) * rstd,
          parameter(a.beta, channel, A(0)),
          parameter(a.tau, channel, A(0)),
          parameter(a.kappa, channel, A(0)),
          A(0),
          A(0)};
}

// Everything that forward and backward derive from one value of x.
template <typename A>
struct Value {
  A d;
  A y;
  A threshold;
  bool blocked;  // y below its threshold; at equality, and where y is NaN, it is y that passes
};

template <typename A>
FRN_DEVICE Value<A> evaluate(Norm norm, Threshold threshold, A x, const Coefficients<A>& k) {
  Value<A> v{x, x, A(0), false};
  if (norm == Norm::kCentered) v.d = x - k.mean;
  if (norm != Norm::kIdentity) v.y = multiply_add(k.slope, v.d, k.beta);
  if (threshold == Threshold::kNone) return v;
  // Not kappa = 0 for a constant threshold: 0*infinity is NaN.
  v.threshold = threshold == Threshold::kAffine ? multiply_add(k.kappa, v.y, k.tau) : k.tau;
  v.blocked = v.y < v.threshold;
  return v;
}

template <typename A>
FRN_DEVICE A dy_of(Threshold threshold, A dz, bool blocked, const Coefficients<A>& k) {
  if (!blocked) return dz;
  return threshold == Threshold::kAffine ? k.kappa * dz : A(0);
}

template <typename A>
FRN_DEVICE A dx_of(Norm norm, A dy, A d, const Coefficients<A>& k) {
  if (norm == Norm::kIdentity) return dy;
  const A dx = multiply_add(k.slope, dy, k.xhat_scale * (d * k.rstd));
  return norm == Norm::kCentered ? dx + k.shift : dx;
}

}  // namespace frn::kernels::cuda
