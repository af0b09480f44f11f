// The steps between the passes, for groups of one channel: a vector holds channels, all arithmetic is in double.
#if defined(FRN_KERNELS_SIMD_FINISH_INL_H) == defined(HWY_TARGET_TOGGLE)
#ifdef FRN_KERNELS_SIMD_FINISH_INL_H
#undef FRN_KERNELS_SIMD_FINISH_INL_H
#else
#define FRN_KERNELS_SIMD_FINISH_INL_H
#endif

#include "frn/kernels/simd/vector-inl.h"

HWY_BEFORE_NAMESPACE();
namespace frn::kernels::HWY_NAMESPACE {

using Wide = hn::ScalableTag<double>;

// As many floats as a vector of doubles has lanes, widened; and back.
HWY_INLINE Vector<Wide> load_wide(Wide d, const float* p) {
  return hn::PromoteTo(d, hn::LoadU(hn::Rebind<float, Wide>(), p));
}
HWY_INLINE Vector<Wide> load_wide(Wide d, const double* p) { return hn::LoadU(d, p); }
HWY_INLINE void store_narrow(Vector<Wide> v, float* p) {
  const hn::Rebind<float, Wide> narrow;
  hn::StoreU(hn::DemoteTo(narrow, v), narrow, p);
}
HWY_INLINE void store_narrow(Vector<Wide> v, double* p) { hn::StoreU(v, Wide(), p); }

template <typename A>
bool rstd(int64_t count, const double* sums, double scale, const A* eps, int64_t eps_step, A* out) {
  const Wide d;
  const int64_t L = lanes(d);
  const auto one = hn::Set(d, 1.0);
  const auto scales = hn::Set(d, scale);
  const auto same_eps = hn::Set(d, static_cast<double>(eps[0]));
  const auto value = [&](int64_t i) HWY_ATTR {
    const auto e = eps_step == 0 ? same_eps : load_wide(d, eps + i);
    return hn::Div(one, hn::Sqrt(hn::MulAdd(hn::LoadU(d, sums + i), scales, e)));
  };
  bool good = true;
  int64_t i = 0;
  for (; i + L <= count; i += L) {
    const auto r = value(i);
    good = good && hn::AllTrue(d, hn::Gt(r, hn::Zero(d)));
    store_narrow(r, out + i);
  }
  for (; i < count; ++i) {
    const double e = static_cast<double>(eps[i * eps_step]);
    // The same rounding as in the vectors: the multiply-add is fused where the target fuses it.
    const auto r = hn::Div(one, hn::Sqrt(hn::MulAdd(hn::Set(d, sums[i]), scales, hn::Set(d, e))));
    out[i] = static_cast<A>(hn::GetLane(r));
    good = good && out[i] > 0;
  }
  return good;
}

template <typename A>
void finish_channel_gradients(const ChannelGradients<A>& g) {
  const Wide d;
  const int64_t L = lanes(d);
  const auto half = hn::Set(d, -0.5);
  const auto scale = hn::Set(d, -g.scale);
  const auto step = [&](Vector<Wide> sum_dy, Vector<Wide> sum_dy_d, Vector<Wide> gamma, Vector<Wide> rstd, A* dbeta,
                        A* dgamma, A* deps, A* xhat_scale, A* shift) HWY_ATTR {
    const auto dy_xhat = hn::Mul(rstd, sum_dy_d);
    const auto slope = hn::Mul(rstd, gamma);
    const auto ghat_xhat = hn::Mul(slope, dy_xhat);  // times rstd
    store_narrow(sum_dy, dbeta);
    store_narrow(dy_xhat, dgamma);
    store_narrow(hn::Mul(half, hn::Mul(rstd, ghat_xhat)), deps);
    store_narrow(hn::Mul(scale, ghat_xhat), xhat_scale);
    store_narrow(hn::Mul(scale, hn::Mul(slope, sum_dy)), shift);
  };
  int64_t c = 0;
  for (; c + L <= g.count; c += L) {
    step(hn::LoadU(d, g.sum_dy + c), hn::LoadU(d, g.sum_dy_d + c), load_wide(d, g.gamma + c), load_wide(d, g.rstd + c),
         g.dbeta + c, g.dgamma + c, g.deps + c, g.xhat_scale + c, g.shift + c);
  }
  for (; c < g.count; ++c) {
    A results[5][kFoldLanes];
    step(hn::Set(d, g.sum_dy[c]), hn::Set(d, g.sum_dy_d[c]), hn::Set(d, static_cast<double>(g.gamma[c])),
         hn::Set(d, static_cast<double>(g.rstd[c])), results[0], results[1], results[2], results[3], results[4]);
    g.dbeta[c] = results[0][0];
    g.dgamma[c] = results[1][0];
    g.deps[c] = results[2][0];
    g.xhat_scale[c] = results[3][0];
    g.shift[c] = results[4][0];
  }
}

}  // namespace frn::kernels::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // FRN_KERNELS_SIMD_FINISH_INL_H
