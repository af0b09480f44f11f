// Forward: z = activation(gamma*xhat + beta). Patches of whole groups are read once (forward_resident). Larger groups
// take three kernels: sums of their patches, statistics of their groups, and the results.
#pragma once

#include "frn/kernels/cuda/formulas.cuh"
#include "frn/kernels/cuda/sums.cuh"

namespace frn::kernels::cuda {

// Sum and squared distances of some values, to be merged with others'.
struct Moments {
  double sum;
  double squares;
  double count;

  FRN_DEVICE double mean() const { return sum / count; }
};

// sum (x - mean)^2 of all values, from those of one share and the mean of all (Chan et al. 1979).
FRN_DEVICE double squares_about(const Moments& share, double mean) {
  if (share.count == 0) return 0;
  const double d = share.mean() - mean;
  return share.squares + share.count * (d * d);
}

template <typename T>
FRN_DEVICE void sum_moments(const Arguments<T>& a, const Patch& p, const Tile<T>& x) {
  using A = Accumulate<T>;
  for_each_item(a, p, [&](const Item& item, int lane) {
    const auto sum_squares_about = [&](double mean) {
      return item_sum<A>(a.cut, p, item, lane, [&](auto total, int i) {
        using Total = decltype(total);
        const Total d = static_cast<Total>(x.get(item.row, i)) - static_cast<Total>(mean);
        return multiply_add(d, d, total);
      });
    };
    Moments m{0, 0, static_cast<double>(part_size(a.cut, p.positions, item.part))};
    if (a.norm == Norm::kCentered && m.count > 0) {
      m.sum = item_sum<A>(a.cut, p, item, lane,
                          [&](auto total, int i) { return total + static_cast<decltype(total)>(x.get(item.row, i)); });
      // Distances are taken from the mean as A has it, and corrected for what that lost.
      const double near_mean = static_cast<double>(static_cast<A>(m.mean()));
      const double lost = m.mean() - near_mean;
      m.squares = sum_squares_about(near_mean) - m.count * (lost * lost);
    } else {
      m.squares = sum_squares_about(0);
    }
    if (lane != 0) return;
    store_shared(shared_sum(a, p, kSumX, item.slot), m.sum);
    store_shared(shared_sum(a, p, kSumSquares, item.slot), m.squares);
  });
}

template <typename T>
FRN_DEVICE Moments moments_of_part(const Arguments<T>& a, const Patch& p, int row, int part) {
  const int slot = slot_of(a.cut, p, row, part);
  return {load_shared(shared_sum(a, p, kSumX, slot)), load_shared(shared_sum(a, p, kSumSquares, slot)),
          static_cast<double>(part_size(a.cut, p.positions, part))};
}

// The statistics of a group from `shares` Moments, share(k): mean and 1/sqrt(nu2 + eps), kept for backward.
template <typename A>
struct Statistics {
  A mean;
  A rstd;
};
template <typename T, typename Share>
FRN_DEVICE Statistics<Accumulate<T>> merge(const Arguments<T>& a, int64_t group, int shares, int team, Share share) {
  using A = Accumulate<T>;
  const double size = static_cast<double>(int64_t{a.group_channels} * a.positions);
  double mean = 0;
  if (a.norm == Norm::kCentered) mean = team_sum_of(shares, team, [&](int k) { return share(k).sum; }) / size;
  const double squares = team_sum_of(shares, team, [&](int k) {
    return a.norm == Norm::kCentered ? squares_about(share(k), mean) : share(k).squares;
  });
  const auto eps = static_cast<double>(load_global(a.eps + (a.eps_per_channel ? group % a.groups : 0)));
  const Statistics<A> s{static_cast<A>(mean), static_cast<A>(1.0 / square_root(squares / size + eps))};
  if (thread_index() % team != 0) return s;
  if (a.norm == Norm::kCentered) store_global(a.mean + group, s.mean);
  store_global(a.rstd + group, s.rstd);
  return s;
}

template <typename T>
FRN_DEVICE void write_results(const Arguments<T>& a, const Patch& p, const Tile<T>& x, const Item& item, int lane,
                              const Coefficients<Accumulate<T>>& k) {
  for_each_position(a.cut, p, item, lane, [&](int i) {
    const auto v = evaluate(a.norm, a.threshold, x.get(item.row, i), k);
    x.put(item.row, i, v.blocked ? v.threshold : v.y);
  });
}

template <typename T>
FRN_KERNEL forward_resident(FRN_ARGUMENT Arguments<T> a) {
  const Patch p = patch_of_block(a);
  const Tile<T> x = tile_of(a, p, 0);
  load_tile(a, p, a.x, x);
  block_barrier();
  sum_moments(a, p, x);
  block_barrier();
  const int team = a.cut.group_team;
  for (int g = thread_index() / team; g < p.rows / a.group_channels; g += block_threads() / team) {
    const int first = g * a.group_channels;
    const auto s = merge(a, row_of(a, p, first).group, a.group_channels * a.cut.parts, team,
                         [&](int k) { return moments_of_part(a, p, first + k / a.cut.parts, k % a.cut.parts); });
    if (thread_index() % team != 0) continue;
    store_shared(shared_group(a, g, 0), s.mean);
    store_shared(shared_group(a, g, 1), s.rstd);
  }
  block_barrier();
  for_each_item(a, p, [&](const Item& item, int lane) {
    const int group = item.row / a.group_channels;
    const auto k = coefficients_of(a, row_of(a, p, item.row).channel, load_shared(shared_group(a, group, 0)),
                                   load_shared(shared_group(a, group, 1)));
    write_results(a, p, x, item, lane, k);
  });
  block_barrier();
  store_tile(a, p, x, a.out);
}

template <typename T>
FRN_KERNEL forward_sums(FRN_ARGUMENT Arguments<T> a) {
  const Patch p = patch_of_block(a);
  const Tile<T> x = tile_of(a, p, 0);
  load_tile(a, p, a.x, x);
  block_barrier();
  sum_moments(a, p, x);
  block_barrier();
  for (int row = thread_index(); row < p.rows; row += block_threads()) {
    Moments all{0, 0, static_cast<double>(p.positions)};
    for (int part = 0; part < a.cut.parts; ++part) all.sum += moments_of_part(a, p, row, part).sum;
    for (int part = 0; part < a.cut.parts; ++part) {
      const Moments share = moments_of_part(a, p, row, part);
      all.squares += a.norm == Norm::kCentered ? squares_about(share, all.mean()) : share.squares;
    }
    const Row at = row_of(a, p, row);
    store_global(segment_sum(a, kMoments, at.sample, p.segment, kSumX, at.channel), all.sum);
    store_global(segment_sum(a, kMoments, at.sample, p.segment, kSumSquares, at.channel), all.squares);
  }
}

// A warp per group.
template <typename T>
FRN_KERNEL forward_statistics(FRN_ARGUMENT Arguments<T> a) {
  const int64_t index = block_index() * (block_threads() / kWarp) + thread_index() / kWarp;
  if (index >= a.samples * a.groups) return;
  const int64_t group = a.first_sample * a.groups + index;
  const int64_t sample = group / a.groups;
  const int first = static_cast<int>(group % a.groups) * a.group_channels;
  merge(a, group, a.group_channels * a.cut.segments, kWarp, [&](int k) {
    const int segment = k / a.group_channels;
    const int channel = first + k % a.group_channels;
    const int count = smaller(a.cut.segment, a.positions - segment * a.cut.segment);
    return Moments{load_global(segment_sum(a, kMoments, sample, segment, kSumX, channel)),
                   load_global(segment_sum(a, kMoments, sample, segment, kSumSquares, channel)),
                   static_cast<double>(count)};
  });
}

// The results from statistics in global memory; without any for Norm::kIdentity.
template <typename T>
FRN_DEVICE Coefficients<Accumulate<T>> coefficients_of_row(const Arguments<T>& a, const Row& row) {
  using A = Accumulate<T>;
  return coefficients_of(a, row.channel, a.norm == Norm::kCentered ? load_global(a.mean + row.group) : A(0),
                         a.norm == Norm::kIdentity ? A(1) : load_global(a.rstd + row.group));
}

template <typename T>
FRN_KERNEL forward_apply(FRN_ARGUMENT Arguments<T> a) {
  const Patch p = patch_of_block(a);
  const Tile<T> x = tile_of(a, p, 0);
  load_tile(a, p, a.x, x);
  block_barrier();
  for_each_item(a, p, [&](const Item& item, int lane) {
    write_results(a, p, x, item, lane, coefficients_of_row(a, row_of(a, p, item.row)));
  });
  block_barrier();
  store_tile(a, p, x, a.out);
}

}  // namespace frn::kernels::cuda
