// What every kernel of this folder gets: one struct, so that a kernel is launched, emulated and interpreted in one way.
//
// A row is one channel of one sample, numbered sample*channels + channel. A patch is what a block holds in shared
// memory: some rows over some positions. Its work is cut into items, the parts of its rows; a team of lanes takes an
// item, each lane every (parts*team)-th position. So the order of additions follows from the cut, never from the grid.
#pragma once

#include <cstdint>

#include "frn/kernels/types.h"

namespace frn::kernels::cuda {

inline constexpr int kMaxThreads = 1024;
inline constexpr int kWarp = 32;
inline constexpr int kPackBytes = 16;  // what one thread moves at a time where addresses allow it

// Where the parts of a block's shared memory start, in bytes.
struct SharedLayout {
  int32_t dz;      // x starts at 0
  int32_t sums;    // [sums][items] doubles
  int32_t groups;  // two numbers per group: mean and rstd, or the coefficients of xhat and of 1 in dx
  int32_t bytes;
};

// How a call is cut into patches. It follows from sizes, type, layout and device, never from the number of samples.
struct Cut {
  bool whole_groups;  // a patch holds whole groups over all their positions: one kernel reads x once
  bool contiguous;    // rows lie one after the other, and patches go on into the next sample; else a position's rows do
  bool vector;        // 16 bytes at a time
  int32_t rows;       // of a patch; the last one may have fewer
  int32_t tiles;      // patches side by side in a sample, for channels-last
  int32_t segment;    // positions of a patch; the last one may have fewer
  int32_t segments;
  int32_t parts;       // of a row in a patch
  int32_t team;        // lanes for one part: a power of two, at most a warp
  int32_t group_team;  // lanes that add up a group
  SharedLayout shared;
};

// Sums of a part or a row: of x and of its squared distance from its own mean, or of x^2 alone.
enum Moment : int { kSumX, kSumSquares, kMoments };

// Rows of `partials` [samples][kPartials][channels], each sample's share of a parameter's gradient; eps's by group.
enum PartialRow : int { kBetaRow, kGammaRow, kTauRow, kKappaRow, kEpsRow, kPartials };

template <typename T>
struct Arguments {
  using A = Accumulate<T>;
  const T* x;
  const T* dz;
  T* out;          // z or dx; null when nobody needs dx
  const A* gamma;  // [channels]; null is 1
  const A* beta;   // [channels], as are tau and kappa; null is 0
  const A* tau;
  const A* kappa;
  const A* eps;     // one number, or one per channel
  A* mean;          // [samples][groups], null unless centered
  A* rstd;          // [samples][groups], null for Norm::kIdentity
  double* sums;     // [samples][segments][kMoments or kGradientSums][channels], for patches without whole groups
  A* coefficients;  // [samples][groups][2] of xhat and of 1 in dx, for the same
  A* partials;      // null when no parameter needs a gradient
  A* gradients[kPartials];  // of beta, gamma, tau, kappa, eps: null where not needed
  int64_t first_sample;     // of this launch
  int64_t samples;          // of this launch
  int32_t channels;
  int32_t positions;
  int32_t groups;
  int32_t group_channels;
  Norm norm;
  Threshold threshold;
  bool eps_per_channel;
  Cut cut;
};

}  // namespace frn::kernels::cuda
