// The parameters' gradients: the sum over the samples, in one order and in double. No atomics.
#pragma once

#include "frn/kernels/cuda/arguments.h"
#include "frn/kernels/cuda/device.cuh"

namespace frn::kernels::cuda {

inline constexpr int kColumns = 32;  // of a block
inline constexpr int kSlices = 8;    // each adds every eighth number of a column

// Adds up the slices of a column; the result is in the threads of slice 0.
FRN_DEVICE double sum_slices(double mine) {
  double* const sums = reinterpret_cast<double*>(shared_memory());
  store_shared(sums + thread_index(), mine);
  block_barrier();
  double total = 0;
  if (thread_index() >= kColumns) return total;
  for (int slice = 0; slice < kSlices; ++slice) total += load_shared(sums + slice * kColumns + thread_index());
  return total;
}

// Blocks: kPartials times the blocks of a row. One eps for all channels is the sum of its whole row.
template <typename T>
FRN_KERNEL sum_samples(FRN_ARGUMENT Arguments<T> a) {
  using A = Accumulate<T>;
  const int blocks = (a.channels + kColumns - 1) / kColumns;
  const int row = static_cast<int>(block_index()) / blocks;
  const int column = static_cast<int>(block_index()) % blocks * kColumns + thread_index() % kColumns;
  const int slice = thread_index() / kColumns;
  A* const out = a.gradients[row];
  if (out == nullptr) return;
  const auto partial = [&](int64_t sample, int64_t at) {
    return static_cast<double>(load_global(a.partials + (sample * kPartials + row) * a.channels + at));
  };
  double mine = 0;
  const bool one_number = row == kEpsRow && !a.eps_per_channel;
  if (one_number) {
    if (block_index() % blocks != 0) return;
    for (int64_t k = thread_index(); k < a.samples * a.groups; k += kColumns * kSlices) {
      mine += partial(k / a.groups, k % a.groups);
    }
  } else if (column < (row == kEpsRow ? a.groups : a.channels)) {
    for (int64_t n = slice; n < a.samples; n += kSlices) mine += partial(n, column);
  }
  double total = sum_slices(mine);
  if (one_number && thread_index() < kColumns) total = team_sum(total, kColumns);
  if (slice != 0) return;
  if (one_number && thread_index() == 0) store_global(out, static_cast<A>(total));
  if (!one_number && column < (row == kEpsRow ? a.groups : a.channels))
    store_global(out + column, static_cast<A>(total));
}

}  // namespace frn::kernels::cuda
