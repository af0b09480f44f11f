// From per-channel sums to the statistics of a group, and from a group's gradient sums to the coefficients of dx.
// Scalar code: it runs once per channel, not once per value. All of it computes in double.
#pragma once

#include <cmath>

#include "frn/kernels/problem.h"
#include "frn/kernels/workspace.h"

namespace frn::kernels {

// A run of whole groups of one sample.
struct GroupRange {
  int64_t sample;
  int64_t begin;
  int64_t end;
};

enum class Moment { kSum, kSumSquares, kSumSquaredDeviations };

// Squares of floats beyond 1.8e19 overflow in float; such a group is summed again in double. Infinities and NaN that
// stand in the data come out as they are.
template <typename T>
double sum_group_in_double(const Problem<T>& p, int64_t sample, int64_t group, Moment moment, double mean) {
  const int64_t first = group * p.group_channels();
  double total = 0;
  for (int64_t c = first; c < first + p.group_channels(); ++c) {
    for (int64_t i = 0; i < p.positions; ++i) {
      const double x = static_cast<double>(to_float(p.x[p.offset(sample, c, i)]));
      const double d = x - mean;
      total += moment == Moment::kSum ? x : d * d;
    }
  }
  return total;
}

// The mean over each group of what `sums` holds per channel of the range.
template <typename T, typename Store>
void for_each_group_mean(const Problem<T>& p, GroupRange range, Moment moment, const double* sums, Store store) {
  const int64_t group_channels = p.group_channels();
  const double scale = 1.0 / p.group_size();
  for (int64_t g = range.begin; g < range.end; ++g) {
    const int64_t first = (g - range.begin) * group_channels;
    double total = 0;
    for (int64_t c = first; c < first + group_channels; ++c) total += sums[c];
    if constexpr (sizeof(Accumulate<T>) == sizeof(float)) {
      if (!std::isfinite(total)) [[unlikely]] {
        const bool centered = moment == Moment::kSumSquaredDeviations;
        const double mean = centered ? static_cast<double>(p.mean[range.sample * p.groups + g]) : 0.0;
        total = sum_group_in_double(p, range.sample, g, moment, mean);
      }
    }
    store(g, first, total * scale);
  }
}

// mean per group, kept for backward, and spread over the channels.
template <typename T>
void finish_mean(const Problem<T>& p, GroupRange range, const double* sums, Accumulate<T>* channel_mean) {
  for_each_group_mean(p, range, Moment::kSum, sums, [&](int64_t g, int64_t first, double mean) {
    const auto value = static_cast<Accumulate<T>>(mean);
    p.mean[range.sample * p.groups + g] = value;
    std::fill_n(channel_mean + first, p.group_channels(), value);
  });
}

// rstd = 1/sqrt(nu2 + eps) per group, kept for backward, and spread over the channels.
template <typename T>
void finish_rstd(const Problem<T>& p, GroupRange range, const double* sums, Accumulate<T>* channel_rstd) {
  const auto moment = p.norm == Norm::kCentered ? Moment::kSumSquaredDeviations : Moment::kSumSquares;
  for_each_group_mean(p, range, moment, sums, [&](int64_t g, int64_t first, double nu2) {
    const auto value = static_cast<Accumulate<T>>(1.0 / std::sqrt(nu2 + p.eps_of(g)));
    p.rstd[range.sample * p.groups + g] = value;
    std::fill_n(channel_rstd + first, p.group_channels(), value);
  });
}

// Backward's first step: the statistics that forward kept, spread over the channels.
template <typename T>
void spread_statistics(const Problem<T>& p, GroupRange range, const ChannelArrays<Accumulate<T>>& arrays) {
  if (p.norm == Norm::kIdentity) return;
  const int64_t group_channels = p.group_channels();
  for (int64_t g = range.begin; g < range.end; ++g) {
    const int64_t first = (g - range.begin) * group_channels;
    std::fill_n(arrays.rstd + first, group_channels, p.rstd[range.sample * p.groups + g]);
    if (p.norm == Norm::kCentered) std::fill_n(arrays.mean + first, group_channels, p.mean[range.sample * p.groups + g]);
  }
}

// Per group: dx = rstd*(gamma*dy - centered*mean(gamma*dy) - xhat*mean(gamma*dy*xhat)), written as coefficients of dy,
// xhat and 1; eps's share -1/2*rstd^2*sum(gamma*dy*xhat); and the channel sums, kept for the parameters' gradients.
template <typename T>
void finish_gradients(const BackwardProblem<T>& p, GroupRange range, const ChannelArrays<Accumulate<T>>& arrays) {
  using A = Accumulate<T>;
  const int64_t group_channels = p.group_channels();
  const int64_t count = (range.end - range.begin) * group_channels;
  const int64_t first_channel = range.begin * group_channels;
  A* const partials = p.partials + range.sample * kPartialRows * p.channels;
  for (int row = 0; row < kGradientSums; ++row) {
    for (int64_t c = 0; c < count; ++c) {
      partials[row * p.channels + first_channel + c] = static_cast<A>(arrays.sums[row * count + c]);
    }
  }
  if (p.norm == Norm::kIdentity) return;

  const double scale = 1.0 / p.group_size();
  const A* const gamma = p.gamma + first_channel;
  const double* const sum_dy = arrays.sums + kSumDy * count;
  const double* const sum_dy_xhat = arrays.sums + kSumDyXhat * count;
  for (int64_t g = range.begin; g < range.end; ++g) {
    const int64_t begin = (g - range.begin) * group_channels;
    const int64_t end = begin + group_channels;
    double ghat = 0;
    double ghat_xhat = 0;
    for (int64_t c = begin; c < end; ++c) {
      ghat += static_cast<double>(gamma[c]) * sum_dy[c];
      ghat_xhat += static_cast<double>(gamma[c]) * sum_dy_xhat[c];
    }
    const double rstd = static_cast<double>(arrays.rstd[begin]);
    partials[kPartialEps * p.channels + g] = static_cast<A>(-0.5 * rstd * rstd * ghat_xhat);
    const auto xhat_scale = static_cast<A>(-rstd * ghat_xhat * scale);
    const auto shift = static_cast<A>(-rstd * ghat * scale);
    for (int64_t c = begin; c < end; ++c) {
      arrays.dy_scale[c] = static_cast<A>(rstd * static_cast<double>(gamma[c]));
      arrays.xhat_scale[c] = xhat_scale;
      arrays.shift[c] = shift;
    }
  }
}

}  // namespace frn::kernels
