// The scalar reference: the formulas as they stand, one value at a time, sums in double. Last in the list; runs
// anywhere.
#include "frn/kernels/reference.h"

#include <cmath>

namespace frn::kernels {
namespace {

template <Layout L>
int64_t index(Extent e, int64_t channel, int64_t position) {
  return L == Layout::kContiguous ? channel * e.stride + position : position * e.stride + channel;
}

template <Layout L, typename T>
void sum(Extent e, const T* x, double* sums) {
  for (int64_t c = 0; c < e.channels; ++c) {
    sums[c] = 0;
    for (int64_t i = 0; i < e.positions; ++i) sums[c] += static_cast<double>(to_float(x[index<L>(e, c, i)]));
  }
}

template <Layout L, typename T>
void sum_squares(Extent e, const T* x, double* sums) {
  for (int64_t c = 0; c < e.channels; ++c) {
    sums[c] = 0;
    for (int64_t i = 0; i < e.positions; ++i) {
      const auto value = static_cast<double>(to_float(x[index<L>(e, c, i)]));
      sums[c] += value * value;
    }
  }
}

template <Layout L, typename T>
void sum_squared_deviations(Extent e, const T* x, const Accumulate<T>* mean, double* sums) {
  for (int64_t c = 0; c < e.channels; ++c) {
    sums[c] = 0;
    for (int64_t i = 0; i < e.positions; ++i) {
      const double d = static_cast<double>(to_float(x[index<L>(e, c, i)])) - static_cast<double>(mean[c]);
      sums[c] += d * d;
    }
  }
}

// Everything that forward and backward derive from one value of x.
template <typename A>
struct Value {
  A d;
  A y;
  A threshold;
  bool blocked;  // y below its threshold; at equality the gradient goes to y (paper, section 3.2)
};

template <Norm N, Threshold H, Addition M, typename A>
Value<A> evaluate(A x, A shortcut, const Coefficients<A>& k, int64_t c) {
  Value<A> v{x, x, A(0), false};
  if constexpr (N == Norm::kCentered) v.d = x - k.mean[c];
  if constexpr (N != Norm::kIdentity) v.y = k.slope[c] * v.d + k.beta[c];
  if constexpr (M == Addition::kShortcut) v.y += shortcut;
  if constexpr (H == Threshold::kConstant) v.threshold = k.tau[c];
  if constexpr (H == Threshold::kAffine) v.threshold = k.kappa[c] * v.y + k.tau[c];
  v.blocked = H != Threshold::kNone && v.y < v.threshold;
  return v;
}

// The same of the values that lie at an offset; no shortcut is read where none is added.
template <Norm N, Threshold H, Addition M, typename T>
Value<Accumulate<T>> evaluate_at(const T* x, const T* shortcut, int64_t at, const Coefficients<Accumulate<T>>& k,
                                 int64_t c) {
  Accumulate<T> added = 0;
  if constexpr (M == Addition::kShortcut) added = to_float(shortcut[at]);
  return evaluate<N, H, M>(to_float(x[at]), added, k, c);
}

template <Layout L, Norm N, Threshold H, Addition M, typename T>
void apply(Extent e, const T* x, const T* shortcut, const Coefficients<Accumulate<T>>& k, T* z, bool) {
  for (int64_t c = 0; c < e.channels; ++c) {
    for (int64_t i = 0; i < e.positions; ++i) {
      const int64_t at = index<L>(e, c, i);
      const auto v = evaluate_at<N, H, M>(x, shortcut, at, k, c);
      from_float(v.blocked ? v.threshold : v.y, z[at]);
    }
  }
}

template <Threshold H, typename A>
A dy_of(A dz, bool blocked, const Coefficients<A>& k, int64_t c) {
  if (!blocked) return dz;
  return H == Threshold::kAffine ? k.kappa[c] * dz : A(0);
}

template <Layout L, Norm N, Threshold H, Addition M, typename T>
void gradient_sums(Extent e, const T* x, const T* shortcut, const T* dz, const Coefficients<Accumulate<T>>& k,
                   double* sums) {
  for (int64_t c = 0; c < e.channels; ++c) {
    double totals[kGradientSums] = {};
    for (int64_t i = 0; i < e.positions; ++i) {
      const int64_t at = index<L>(e, c, i);
      const auto v = evaluate_at<N, H, M>(x, shortcut, at, k, c);
      const auto g = to_float(dz[at]);
      const auto dy = static_cast<double>(dy_of<H>(g, v.blocked, k, c));
      totals[kSumDy] += dy;
      totals[kSumDyD] += dy * static_cast<double>(v.d);
      if (v.blocked) {
        totals[kSumBlockedDz] += static_cast<double>(g);
        totals[kSumBlockedDzY] += static_cast<double>(g) * static_cast<double>(v.y);
      }
    }
    for (int row = 0; row < kGradientSums; ++row) sums[row * e.channels + c] = totals[row];
  }
}

template <Layout L, Norm N, Threshold H, Addition M, typename T>
void gradient_apply(Extent e, const T* x, const T* shortcut, const T* dz, const Coefficients<Accumulate<T>>& k, T* dx,
                    T* dshortcut, bool) {
  for (int64_t c = 0; c < e.channels; ++c) {
    for (int64_t i = 0; i < e.positions; ++i) {
      const int64_t at = index<L>(e, c, i);
      const auto v = evaluate_at<N, H, M>(x, shortcut, at, k, c);
      auto out = dy_of<H>(to_float(dz[at]), v.blocked, k, c);
      if constexpr (M == Addition::kShortcut) {
        if (dshortcut != nullptr) from_float(out, dshortcut[at]);
      }
      if constexpr (N != Norm::kIdentity) out = k.slope[c] * out + k.xhat_scale[c] * (v.d * k.rstd[c]);
      if constexpr (N == Norm::kCentered) out += k.shift[c];
      from_float(out, dx[at]);
    }
  }
}

template <typename A>
bool rstd(int64_t count, const double* sums, double scale, const A* eps, int64_t eps_step, A* out) {
  bool good = true;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = static_cast<A>(1.0 / std::sqrt(sums[i] * scale + static_cast<double>(eps[i * eps_step])));
    good = good && out[i] > 0;
  }
  return good;
}

template <typename A>
void finish_channel_gradients(const ChannelGradients<A>& g) {
  for (int64_t c = 0; c < g.count; ++c) {
    const auto gamma = static_cast<double>(g.gamma[c]);
    const auto rstd_c = static_cast<double>(g.rstd[c]);
    const double dy_xhat = rstd_c * g.sum_dy_d[c];
    g.dbeta[c] = static_cast<A>(g.sum_dy[c]);
    g.dgamma[c] = static_cast<A>(dy_xhat);
    g.deps[c] = static_cast<A>(-0.5 * rstd_c * rstd_c * (gamma * dy_xhat));
    g.xhat_scale[c] = static_cast<A>(-rstd_c * (gamma * dy_xhat) * g.scale);
    g.shift[c] = static_cast<A>(-rstd_c * (gamma * g.sum_dy[c]) * g.scale);
  }
}

template <typename T, Layout L, Norm N, Threshold H, Addition M>
void fill(Loops<T>& loops) {
  constexpr int kNorm = static_cast<int>(N);
  constexpr int kThreshold = static_cast<int>(H);
  constexpr int kAddition = static_cast<int>(M);
  loops.apply[kAddition][kNorm][kThreshold] = apply<L, N, H, M, T>;
  loops.gradient_sums[kAddition][kNorm][kThreshold] = gradient_sums<L, N, H, M, T>;
  loops.gradient_apply[kAddition][kNorm][kThreshold] = gradient_apply<L, N, H, M, T>;
}

template <typename T, Layout L>
Loops<T> make_loops() {
  Loops<T> loops{};
  loops.sum = sum<L, T>;
  loops.sum_squares = sum_squares<L, T>;
  loops.sum_squared_deviations = sum_squared_deviations<L, T>;
  loops.rstd = rstd<Accumulate<T>>;
  loops.finish_channel_gradients = finish_channel_gradients<Accumulate<T>>;
  const auto fill_norm = [&]<Norm N>() {
    fill<T, L, N, Threshold::kNone, Addition::kNone>(loops);
    fill<T, L, N, Threshold::kConstant, Addition::kNone>(loops);
    fill<T, L, N, Threshold::kAffine, Addition::kNone>(loops);
    if constexpr (kAddsShortcut<T> && N != Norm::kIdentity) {
      fill<T, L, N, Threshold::kConstant, Addition::kShortcut>(loops);
      fill<T, L, N, Threshold::kAffine, Addition::kShortcut>(loops);
    }
  };
  fill_norm.template operator()<Norm::kIdentity>();
  fill_norm.template operator()<Norm::kUncentered>();
  fill_norm.template operator()<Norm::kCentered>();
  return loops;
}

}  // namespace

template <typename T>
const LayoutLoops<T>* reference_loops() {
  static const LayoutLoops<T> loops{{make_loops<T, Layout::kContiguous>(), make_loops<T, Layout::kChannelsLast>()}};
  return &loops;
}

template const LayoutLoops<float>* reference_loops<float>();
template const LayoutLoops<double>* reference_loops<double>();
template const LayoutLoops<BFloat16>* reference_loops<BFloat16>();
template const LayoutLoops<Float16>* reference_loops<Float16>();

}  // namespace frn::kernels
