// Scratch memory of a call: the caller allocates `workspace_bytes` once, 64-byte aligned, and the driver carves it up.
#pragma once

#include <cstddef>

#include "frn/kernels/problem.h"

namespace frn::kernels {

// Per-channel arrays of `channels` entries. Every array starts on a cache line of its own, so that no two threads
// ever write to one line.
template <typename A>
struct ChannelArrays {
  double* sums;          // [kGradientSums][channels]
  double* segment_sums;  // the same, of one segment
  A* mean;
  A* rstd;
  A* slope;
  A* xhat_scale;
  A* shift;

  static size_t line(size_t bytes) { return (bytes + kCacheLine - 1) / kCacheLine * kCacheLine; }
  static size_t bytes(int64_t channels) {
    const auto n = static_cast<size_t>(channels);
    return 2 * line(kGradientSums * n * sizeof(double)) + 5 * line(n * sizeof(A));
  }
  ChannelArrays(std::byte* memory, int64_t channels) {
    const auto n = static_cast<size_t>(channels);
    const auto take = [&memory](size_t bytes) {
      std::byte* here = memory;
      memory += line(bytes);
      return here;
    };
    sums = reinterpret_cast<double*>(take(kGradientSums * n * sizeof(double)));
    segment_sums = reinterpret_cast<double*>(take(kGradientSums * n * sizeof(double)));
    mean = reinterpret_cast<A*>(take(n * sizeof(A)));
    rstd = reinterpret_cast<A*>(take(n * sizeof(A)));
    slope = reinterpret_cast<A*>(take(n * sizeof(A)));
    xhat_scale = reinterpret_cast<A*>(take(n * sizeof(A)));
    shift = reinterpret_cast<A*>(take(n * sizeof(A)));
  }
};

template <typename T>
int64_t unit_channels(const Problem<T>& p, const Plan& plan) {
  return plan.unit_groups * p.group_channels();
}

template <typename T>
size_t segment_sums_bytes(const Problem<T>& p) {
  using Arrays = ChannelArrays<Accumulate<T>>;
  return Arrays::line(static_cast<size_t>(kGradientSums * p.channels) * sizeof(double));
}

// One set of arrays per thread; when the passes are split, one per sample and the sums of every segment.
template <typename T>
size_t workspace_bytes(const Problem<T>& p, const Plan& plan, int threads) {
  using Arrays = ChannelArrays<Accumulate<T>>;
  if (!plan.split) return Arrays::bytes(unit_channels(p, plan)) * static_cast<size_t>(threads);
  return static_cast<size_t>(p.samples) *
         (Arrays::bytes(p.channels) + static_cast<size_t>(plan.segments) * segment_sums_bytes(p));
}

}  // namespace frn::kernels
