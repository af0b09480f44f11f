// One call of norm_act as the kernels see it: sizes, pointers, and how its work is cut into pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "frn/kernels/kernels.h"

namespace frn::kernels {

// Statistics run over a group: channels/groups adjacent channels of one sample. Norm::kIdentity has no statistics.
template <typename T>
struct Problem {
  using A = Accumulate<T>;
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t positions = 0;
  int64_t groups = 0;
  Layout layout = Layout::kContiguous;
  Norm norm = Norm::kIdentity;
  Threshold threshold = Threshold::kNone;
  const T* x = nullptr;
  // Added to y, in x's layout; null without. Only where kAddsShortcut<T>, with a norm and a threshold.
  const T* shortcut = nullptr;
  const A* gamma = nullptr;  // [channels], as are beta, tau and kappa
  const A* beta = nullptr;
  const A* tau = nullptr;
  const A* kappa = nullptr;
  const A* eps = nullptr;  // one number, or one per channel when groups == channels
  bool eps_per_channel = false;
  A* mean = nullptr;  // [samples, groups], null unless centered: written by forward, read by backward
  A* rstd = nullptr;  // [samples, groups], null for kIdentity
  bool stream = false;

  Addition addition() const { return shortcut == nullptr ? Addition::kNone : Addition::kShortcut; }
  int64_t group_channels() const { return channels / groups; }
  double group_size() const { return static_cast<double>(group_channels() * positions); }
  double eps_of(int64_t group) const { return static_cast<double>(eps[eps_per_channel ? group : 0]); }

  int64_t offset(int64_t sample, int64_t channel, int64_t position) const {
    return layout == Layout::kContiguous ? (sample * channels + channel) * positions + position
                                         : (sample * positions + position) * channels + channel;
  }
  Extent extent(int64_t patch_channels, int64_t patch_positions) const {
    return {patch_channels, patch_positions, layout == Layout::kContiguous ? positions : channels,
            channels * positions * static_cast<int64_t>(sizeof(T))};
  }
};

// Rows of `partials` [samples][kPartialRows][channels]: each sample's share of the parameters' gradients; eps's by
// group.
enum Partial : int { kPartialBeta, kPartialGamma, kPartialTau, kPartialKappa, kPartialEps, kPartialRows };

template <typename T>
struct BackwardProblem : Problem<T> {
  const T* dz = nullptr;
  T* dx = nullptr;         // null when nobody needs it
  T* dshortcut = nullptr;  // null when nobody needs it; not without dx
  typename Problem<T>::A* partials = nullptr;
};

// How a problem is cut. A unit is some whole groups of one sample: its values are read once from memory and then again
// from the cache. With fewer units than threads (one sample, one group) each pass is cut into segments of positions
// instead. Sums are always taken per segment and channel and added up in one order, so the cut never changes a bit.
struct Plan {
  int64_t unit_groups;
  int64_t units_per_sample;
  int64_t segment;  // positions
  int64_t segments;
  bool split;
};

// L1 holds 32 KiB or more on every machine we know: a unit's inputs take half of it, the output and tables the rest.
inline constexpr int64_t kUnitBytes = int64_t{16} * 1024;
// Long enough that the cost per segment vanishes, short enough to give every core of one large map something to do.
inline constexpr int64_t kContiguousSegment = 16384;
inline constexpr int64_t kChannelsLastSegment = 512;

template <typename T>
Plan make_plan(const Problem<T>& p, int inputs, int threads) {
  Plan plan{};
  const bool contiguous = p.layout == Layout::kContiguous;
  plan.segment = contiguous ? kContiguousSegment : kChannelsLastSegment;
  plan.segments = std::max<int64_t>(1, (p.positions + plan.segment - 1) / plan.segment);
  const int64_t group_bytes = p.group_channels() * p.positions * inputs * static_cast<int64_t>(sizeof(T));
  // Channels-last rows interleave the channels: cutting them would read part of each cache line.
  plan.unit_groups =
      contiguous ? std::clamp<int64_t>(kUnitBytes / std::max<int64_t>(group_bytes, 1), 1, p.groups) : p.groups;
  plan.units_per_sample = (p.groups + plan.unit_groups - 1) / plan.unit_groups;
  const int64_t units = p.samples * plan.units_per_sample;
  const int64_t elements = p.samples * p.channels * p.positions;
  const bool uneven = units < int64_t{4} * threads && units % threads != 0;
  plan.split = threads > 1 && uneven && elements >= 32768;
  return plan;
}

}  // namespace frn::kernels
