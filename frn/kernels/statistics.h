// From per-channel sums to the statistics of a group, and from a group's gradient sums to the coefficients of dx.
// It runs once per channel, not once per value, but maps of 7x7 make that count: groups of one channel take the
// implementation's vector loops. All of it computes in double.
#pragma once

#include <algorithm>
#include <cmath>

#include "frn/kernels/problem.h"
#include "frn/kernels/workspace.h"

namespace frn::kernels {

// A run of whole groups of one sample.
struct GroupRange {
  int64_t sample;
  int64_t begin;
  int64_t end;

  int64_t count() const { return end - begin; }
};

// The sum over a group, in double and one value at a time: of x, or of (x - mean)^2. Squares of floats beyond 1.8e19
// overflow in the loops' float sums; such groups are summed here. Infinities and NaN in the data come out as they are.
template <typename T>
double sum_group_in_double(const Problem<T>& p, int64_t sample, int64_t group, bool squares, double mean) {
  const int64_t first = group * p.group_channels();
  double total = 0;
  for (int64_t c = first; c < first + p.group_channels(); ++c) {
    for (int64_t i = 0; i < p.positions; ++i) {
      const double d = static_cast<double>(to_float(p.x[p.offset(sample, c, i)])) - mean;
      total += squares ? d * d : d;
    }
  }
  return total;
}

// Adds up the channels of each group; in place when a group is one channel.
inline const double* sum_groups(int64_t groups, int64_t group_channels, const double* channel_sums,
                                double* group_sums) {
  if (group_channels == 1) return channel_sums;
  for (int64_t g = 0; g < groups; ++g) {
    double total = 0;
    for (int64_t c = 0; c < group_channels; ++c) total += channel_sums[g * group_channels + c];
    group_sums[g] = total;
  }
  return group_sums;
}

// The statistics of a range of groups, spread over its channels; slope = gamma*rstd.
template <typename T>
void spread_statistics(const Problem<T>& p, GroupRange range, const ChannelArrays<Accumulate<T>>& arrays) {
  if (p.norm == Norm::kIdentity) return;
  const int64_t group_channels = p.group_channels();
  const auto* const rstd = p.rstd + range.sample * p.groups + range.begin;
  const auto* const gamma = p.gamma + range.begin * group_channels;
  if (group_channels == 1) {
    std::copy_n(rstd, range.count(), arrays.rstd);
  } else {
    for (int64_t g = 0; g < range.count(); ++g) std::fill_n(arrays.rstd + g * group_channels, group_channels, rstd[g]);
  }
  for (int64_t c = 0; c < range.count() * group_channels; ++c) arrays.slope[c] = gamma[c] * arrays.rstd[c];
  if (p.norm != Norm::kCentered) return;
  const auto* const mean = p.mean + range.sample * p.groups + range.begin;
  for (int64_t g = 0; g < range.count(); ++g) std::fill_n(arrays.mean + g * group_channels, group_channels, mean[g]);
}

// mean per group from arrays.sums, kept for backward, and spread over the channels.
template <typename T>
void finish_mean(const Problem<T>& p, GroupRange range, const ChannelArrays<Accumulate<T>>& arrays) {
  const double* const sums = sum_groups(range.count(), p.group_channels(), arrays.sums, arrays.segment_sums);
  auto* const mean = p.mean + range.sample * p.groups + range.begin;
  for (int64_t g = 0; g < range.count(); ++g) {
    double total = sums[g];
    if (!std::isfinite(total)) [[unlikely]]
      total = sum_group_in_double(p, range.sample, range.begin + g, false, 0.0);
    mean[g] = static_cast<Accumulate<T>>(total / p.group_size());
    std::fill_n(arrays.mean + g * p.group_channels(), p.group_channels(), mean[g]);
  }
}

// rstd = 1/sqrt(nu2 + eps) per group from arrays.sums, kept for backward, and all that is spread over the channels.
template <typename T>
void finish_rstd(const Problem<T>& p, const Loops<T>& loops, GroupRange range,
                 const ChannelArrays<Accumulate<T>>& arrays) {
  const double scale = 1.0 / p.group_size();
  const double* const sums = sum_groups(range.count(), p.group_channels(), arrays.sums, arrays.segment_sums);
  auto* const rstd = p.rstd + range.sample * p.groups + range.begin;
  const auto* const eps = p.eps_per_channel ? p.eps + range.begin : p.eps;
  if (!loops.rstd(range.count(), sums, scale, eps, p.eps_per_channel ? 1 : 0, rstd)) [[unlikely]] {
    for (int64_t g = 0; g < range.count(); ++g) {
      if (std::isfinite(sums[g])) continue;
      const int64_t group = range.begin + g;
      const double mean =
          p.norm == Norm::kCentered ? static_cast<double>(p.mean[range.sample * p.groups + group]) : 0.0;
      const double nu2 = sum_group_in_double(p, range.sample, group, true, mean) * scale;
      rstd[g] = static_cast<Accumulate<T>>(1.0 / std::sqrt(nu2 + p.eps_of(group)));
    }
  }
  spread_statistics(p, range, arrays);
}

// Per group: dx = rstd*(gamma*dy - centered*mean(gamma*dy) - xhat*mean(gamma*dy*xhat)), written as coefficients of dy,
// xhat and 1; eps's share -1/2*rstd^2*sum(gamma*dy*xhat); and each channel's share of the parameters' gradients.
template <typename T>
void finish_gradients(const BackwardProblem<T>& p, const Loops<T>& loops, GroupRange range,
                      const ChannelArrays<Accumulate<T>>& arrays) {
  using A = Accumulate<T>;
  const int64_t group_channels = p.group_channels();
  const int64_t count = range.count() * group_channels;
  const int64_t first = range.begin * group_channels;
  A* const partials = p.partials + range.sample * kPartialRows * p.channels;
  const auto row = [&](int index) { return partials + index * p.channels + first; };
  const auto copy_row = [&](int partial, int sum) {
    const double* const source = arrays.sums + sum * count;
    for (int64_t c = 0; c < count; ++c) row(partial)[c] = static_cast<A>(source[c]);
  };
  if (p.threshold != Threshold::kNone) copy_row(kPartialTau, kSumBlockedDz);
  if (p.threshold == Threshold::kAffine) copy_row(kPartialKappa, kSumBlockedDzY);
  if (p.norm == Norm::kIdentity) return;

  const double* const sum_dy = arrays.sums + kSumDy * count;
  const double* const sum_dy_d = arrays.sums + kSumDyD * count;
  const A* const gamma = p.gamma + first;
  const double scale = 1.0 / p.group_size();
  A* const deps = partials + kPartialEps * p.channels + range.begin;
  if (group_channels == 1) {
    loops.finish_channel_gradients({count, sum_dy, sum_dy_d, gamma, arrays.rstd, scale, row(kPartialBeta),
                                    row(kPartialGamma), deps, arrays.xhat_scale, arrays.shift});
    return;
  }
  for (int64_t g = 0; g < range.count(); ++g) {
    const int64_t begin = g * group_channels;
    const double rstd = static_cast<double>(arrays.rstd[begin]);
    double ghat = 0;
    double ghat_xhat = 0;
    for (int64_t c = begin; c < begin + group_channels; ++c) {
      const double dy_xhat = rstd * sum_dy_d[c];
      row(kPartialBeta)[c] = static_cast<A>(sum_dy[c]);
      row(kPartialGamma)[c] = static_cast<A>(dy_xhat);
      ghat += static_cast<double>(gamma[c]) * sum_dy[c];
      ghat_xhat += static_cast<double>(gamma[c]) * dy_xhat;
    }
    deps[g] = static_cast<A>(-0.5 * rstd * rstd * ghat_xhat);
    std::fill_n(arrays.xhat_scale + begin, group_channels, static_cast<A>(-rstd * ghat_xhat * scale));
    std::fill_n(arrays.shift + begin, group_channels, static_cast<A>(-rstd * ghat * scale));
  }
}

}  // namespace frn::kernels
