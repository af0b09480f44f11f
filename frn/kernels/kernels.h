// kernels/ holds the formulas of the paper (sections 3.1 to 3.4) and the loops that run them: plain C++ and SIMD.
// Nothing here includes torch, starts a thread or allocates; callers bring memory and, through driver.h, threads.
//
//   d = x - mean    xhat = rstd*d    y = slope*d + beta [+ shortcut], slope = gamma*rstd
//   z = y where y >= t, else t,  t = kappa*y + tau
//
// An implementation is a table of loops over a patch: some channels of one sample, over some positions of their maps.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "frn/kernels/types.h"

namespace frn::kernels {

// Channels x positions of one sample. `stride` is the distance between maps (contiguous) or rows (channels-last).
// `sample_bytes`, of the whole sample, tells whether a second pass will find it in the core's own cache.
struct Extent {
  int64_t channels;
  int64_t positions;
  int64_t stride;
  int64_t sample_bytes;
};

// Per-channel numbers of a patch, one array each, starting at the patch's first channel: mean only for centered norms,
// xhat_scale and shift only for gradient_apply, where dx = slope*dy + xhat_scale*xhat + shift.
template <typename A>
struct Coefficients {
  const A* mean = nullptr;
  const A* rstd = nullptr;
  const A* slope = nullptr;
  const A* beta = nullptr;
  const A* tau = nullptr;
  const A* kappa = nullptr;
  const A* xhat_scale = nullptr;
  const A* shift = nullptr;
};

// Inputs and outputs of the step from a channel's gradient sums to its coefficients, for groups of one channel.
template <typename A>
struct ChannelGradients {
  int64_t count;
  const double* sum_dy;
  const double* sum_dy_d;
  const A* gamma;
  const A* rstd;
  double scale;  // 1/positions
  A* dbeta;
  A* dgamma;
  A* deps;
  A* xhat_scale;
  A* shift;
};

// The loops of one implementation for one element type and layout. Sums come out in double, one per channel,
// overwriting; the order of additions depends on the patch alone. `stream` writes around the cache, for results larger
// than it. `shortcut` is read by the loops of Addition::kShortcut alone, which exist for norms with a threshold where
// kAddsShortcut<T>; they also write `dshortcut`, the gradient of y, unless it is null.
template <typename T>
struct Loops {
  using A = Accumulate<T>;
  using Sum = void (*)(Extent, const T* x, double* sums);
  using Deviations = void (*)(Extent, const T* x, const A* mean, double* sums);
  using Apply = void (*)(Extent, const T* x, const T* shortcut, const Coefficients<A>&, T* z, bool stream);
  using GradientSums = void (*)(Extent, const T* x, const T* shortcut, const T* dz, const Coefficients<A>&,
                                double* sums);  // [kGradientSums][channels]
  using GradientApply = void (*)(Extent, const T* x, const T* shortcut, const T* dz, const Coefficients<A>&, T* dx,
                                 T* dshortcut, bool stream);

  // rstd[i] = 1/sqrt(sums[i]*scale + eps[i*eps_step]); false if one of them is zero or not a number.
  using Rstd = bool (*)(int64_t count, const double* sums, double scale, const A* eps, int64_t eps_step, A* rstd);
  using Finish = void (*)(const ChannelGradients<A>&);

  Sum sum;
  Sum sum_squares;
  Deviations sum_squared_deviations;
  Rstd rstd;
  Finish finish_channel_gradients;
  Apply apply[kAdditions][kNorms][kThresholds];
  GradientSums gradient_sums[kAdditions][kNorms][kThresholds];
  GradientApply gradient_apply[kAdditions][kNorms][kThresholds];
};

template <typename T>
struct LayoutLoops {
  Loops<T> by_layout[kLayouts];
};

// One way to run the kernels. `why_not` is empty when this machine can run it, else the reason in words.
struct Implementation {
  std::string_view name;
  std::string_view why_not;
  const LayoutLoops<float>* f32;
  const LayoutLoops<double>* f64;
  const LayoutLoops<BFloat16>* bf16;
  const LayoutLoops<Float16>* f16;

  template <typename T>
  const Loops<T>& loops(Layout layout) const {
    const auto index = static_cast<int>(layout);
    if constexpr (std::is_same_v<T, float>) return f32->by_layout[index];
    if constexpr (std::is_same_v<T, double>) return f64->by_layout[index];
    if constexpr (std::is_same_v<T, BFloat16>) return bf16->by_layout[index];
    if constexpr (std::is_same_v<T, Float16>) return f16->by_layout[index];
  }
};

// Best first, the scalar reference last. Implementations this build has but this machine lacks are listed too.
std::span<const Implementation> implementations();

// The one to use: the one forced by force_implementation() or by FRN_IMPLEMENTATION, else the first that can run here.
// Throws frn::Error for a name that is unknown or that this machine cannot run.
const Implementation& chosen_implementation();

// Forces one by name for the whole process; an empty name goes back to the default. Throws like
// chosen_implementation().
void force_implementation(std::string_view name);

}  // namespace frn::kernels
