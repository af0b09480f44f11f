#include "frn/losses/focal_loops.h"

#include <cmath>

#undef HWY_TARGET_INCLUDE
// Highway's name.
// NOLINTNEXTLINE(readability-identifier-naming)
#define HWY_TARGET_INCLUDE "frn/losses/focal_loops.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes before the rest: it sets the target that the rest is compiled for.
#include "hwy/contrib/math/math-inl.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace frn::losses::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;

struct Parts {
  V loss;
  V gradient;
};

// With e = exp(-|x|), which is never above 1: p = 1/(1 + e) or e/(1 + e), softplus(x) = max(x, 0) + log(1 + e).
HWY_INLINE Parts background(V x, V one_minus_alpha) {
  const D d;
  const V one = hn::Set(d, 1.0F);
  const V e = hn::Exp(d, hn::Neg(hn::Abs(x)));
  const V share = hn::Div(one, hn::Add(one, e));
  const auto positive = hn::Ge(x, hn::Zero(d));
  const V p = hn::IfThenElse(positive, share, hn::Mul(e, share));
  const V not_p = hn::IfThenElse(positive, hn::Mul(e, share), share);
  const V softplus = hn::Add(hn::Max(x, hn::Zero(d)), hn::Log1p(d, e));
  const V square = hn::Mul(one_minus_alpha, hn::Mul(p, p));
  const V slope = hn::Add(hn::Mul(hn::Add(not_p, not_p), softplus), p);
  return {hn::Mul(square, softplus), hn::Mul(square, slope)};
}

// Sums of float32 over at most kRun values for each lane, then in float64.
constexpr int64_t kRun = 64;

double focal_run(const float* logits, int64_t count, float alpha, float scale, float* gradient) {
  const D d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const V one_minus_alpha = hn::Set(d, 1 - alpha);
  const V factor = hn::Set(d, scale);
  double sum = 0;
  int64_t i = 0;
  while (i + lanes <= count) {
    V partial = hn::Zero(d);
    for (int64_t k = 0; k < kRun && i + lanes <= count; ++k, i += lanes) {
      const auto parts = background(hn::LoadU(d, logits + i), one_minus_alpha);
      partial = hn::Add(partial, parts.loss);
      hn::StoreU(hn::Mul(parts.gradient, factor), d, gradient + i);
    }
    sum += static_cast<double>(hn::GetLane(hn::SumOfLanes(d, partial)));
  }
  for (; i < count; ++i) {
    const auto value = frn::losses::focal_background(logits[i], alpha);
    sum += value.loss;
    gradient[i] = static_cast<float>(value.gradient * scale);
  }
  return sum;
}

}  // namespace frn::losses::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace frn::losses {
namespace {

double softplus(double x) { return std::fmax(x, 0) + std::log1p(std::exp(-std::abs(x))); }
double sigmoid(double x) { return x >= 0 ? 1 / (1 + std::exp(-x)) : std::exp(x) / (1 + std::exp(x)); }

}  // namespace

HWY_EXPORT(focal_run);

double focal_background(const float* logits, int64_t count, float alpha, float scale, float* gradient) {
  return HWY_DYNAMIC_DISPATCH(focal_run)(logits, count, alpha, scale, gradient);
}

FocalValue focal_object(float logit, float alpha) {
  const double x = logit;
  const double rest = sigmoid(-x);
  const double square = double{alpha} * rest * rest;
  const double loss = softplus(-x);
  return {square * loss, -square * (2 * sigmoid(x) * loss + rest)};
}

FocalValue focal_background(float logit, float alpha) {
  const double x = logit;
  const double p = sigmoid(x);
  const double square = (1 - double{alpha}) * p * p;
  const double loss = softplus(x);
  return {square * loss, square * (2 * sigmoid(-x) * loss + p)};
}

}  // namespace frn::losses
#endif
