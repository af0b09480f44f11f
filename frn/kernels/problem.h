// One call of norm_act as the kernels see it: sizes, pointers, and how its work is cut into pieces.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>

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

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }

// How a problem is cut. A unit is some whole groups of one sample: its values are read once from memory and then again
// from the cache. Where units do not keep the threads busy (one sample, one group), each pass is cut into pieces of
// positions and channels instead. Sums are always taken per segment and channel and added up in one order, so the cut
// never changes a bit.
struct Plan {
  int64_t unit_groups;
  int64_t units_per_sample;
  int64_t segment;  // positions
  int64_t segments;
  bool split;
  int64_t piece_channels;  // of a split pass, each piece of one segment

  // What the threads share out.
  int64_t pieces(int64_t samples, int64_t channels) const {
    return samples * (split ? segments * divide_up(channels, piece_channels) : units_per_sample);
  }
};

// L1 holds 32 KiB or more on every machine we know: a unit's inputs take half of it, the output and tables the rest.
inline constexpr int64_t kUnitBytes = int64_t{16} * 1024;
// Long enough that the cost per segment vanishes, short enough to give every core of one large map something to do.
inline constexpr int64_t kContiguousSegment = 16384;
inline constexpr int64_t kChannelsLastSegment = 512;
// Fewer values take less time than another thread takes to start (measured: about 5 us).
inline constexpr int64_t kValuesPerThread = 32768;
inline constexpr size_t kCacheLine = 64;
// Of a channels-last row, the least that one thread reads while others read the rest: processors fetch two lines
// together.
inline constexpr int64_t kLeastRowBytes = 2 * kCacheLine;

// Whether so many pieces are shared out without threads that wait long for the others.
inline bool keep_busy(int64_t pieces, int64_t threads) { return pieces >= 4 * threads || pieces % threads == 0; }

// The groups of a unit. Channels-last rows interleave the channels, so that a unit is best a whole sample. Samples are
// cut between channels only where they are too few for the threads, and their segments too: one image of 14x14 has a
// single segment.
template <typename T>
int64_t channels_last_unit(const Problem<T>& p, int64_t segments, int64_t threads) {
  if (p.samples * segments >= 2 * threads) return p.groups;
  const int64_t least =
      std::lcm(p.group_channels(), kLeastRowBytes / static_cast<int64_t>(sizeof(T))) / p.group_channels();
  const int64_t most_cuts = p.groups / least;
  for (int64_t cuts = 1; cuts <= most_cuts; ++cuts) {
    if (keep_busy(p.samples * cuts, threads))
      return std::min(divide_up(divide_up(p.groups, cuts), least) * least, p.groups);
  }
  return p.groups;
}

// A piece is some channels of one segment, of a pass that is split.
template <typename T>
int64_t channels_of_piece(const Problem<T>& p, int64_t segments, int64_t threads) {
  constexpr auto kSize = static_cast<int64_t>(sizeof(T));
  if (p.layout == Layout::kContiguous) {
    // At least a whole cache line of sums per piece, so that no two threads write to one.
    constexpr auto kLineOfSums = static_cast<int64_t>(kCacheLine / sizeof(double));
    return std::max(kLineOfSums, kUnitBytes / std::max<int64_t>(1, p.positions * kSize));
  }
  constexpr int64_t kLeast = kLeastRowBytes / kSize;
  const int64_t cuts = divide_up(4 * threads, std::max<int64_t>(1, p.samples * segments));
  return divide_up(divide_up(p.channels, cuts), kLeast) * kLeast;
}

template <typename T>
Plan make_plan(const Problem<T>& p, int inputs, int threads) {
  Plan plan{};
  const bool contiguous = p.layout == Layout::kContiguous;
  const int64_t busy = std::clamp<int64_t>(p.samples * p.channels * p.positions / kValuesPerThread, 1, threads);
  plan.segment = contiguous ? kContiguousSegment : kChannelsLastSegment;
  plan.segments = std::max<int64_t>(1, divide_up(p.positions, plan.segment));
  const int64_t group_bytes = p.group_channels() * p.positions * inputs * static_cast<int64_t>(sizeof(T));
  plan.unit_groups = contiguous ? std::clamp<int64_t>(kUnitBytes / std::max<int64_t>(group_bytes, 1), 1, p.groups)
                                : channels_last_unit(p, plan.segments, busy);
  plan.units_per_sample = divide_up(p.groups, plan.unit_groups);
  plan.split = !keep_busy(p.samples * plan.units_per_sample, busy);
  plan.piece_channels = channels_of_piece(p, plan.segments, busy);
  return plan;
}

}  // namespace frn::kernels
