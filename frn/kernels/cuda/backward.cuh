// Backward: dx = rstd*(gamma*dy - centered*mean(gamma*dy) - xhat*mean(gamma*dy*xhat)), and each sample's share of the
// gradients of the parameters. As forward: one kernel for patches of whole groups, else three.
#pragma once

#include "frn/kernels/cuda/forward.cuh"

namespace frn::kernels::cuda {

template <typename T>
struct TilePair {
  Tile<T> x;
  Tile<T> dz;
};

template <typename T>
FRN_DEVICE TilePair<T> load_both(const Arguments<T>& a, const Patch& p) {
  const TilePair<T> tiles{tile_of(a, p, 0), tile_of(a, p, a.cut.shared.dz)};
  load_tile(a, p, a.x, tiles.x);
  load_tile(a, p, a.dz, tiles.dz);
  return tiles;
}

// The four sums of an item, to shared memory.
template <typename T>
FRN_DEVICE void sum_gradients(const Arguments<T>& a, const Patch& p, const TilePair<T>& tiles) {
  using A = Accumulate<T>;
  for_each_item(a, p, [&](const Item& item, int lane) {
    const auto k = coefficients_of_row(a, row_of(a, p, item.row));
    double totals[kGradientSums] = {};
    const int step = a.cut.parts * a.cut.team;
    int i = item.part * a.cut.team + lane;
    while (i < p.positions) {
      A chain[kGradientSums] = {};
      for (int j = 0; j < kChain && i < p.positions; ++j, i += step) {
        const auto v = evaluate(a.norm, a.threshold, tiles.x.get(item.row, i), k);
        const A dz = tiles.dz.get(item.row, i);
        const A dy = dy_of(a.threshold, dz, v.blocked, k);
        chain[kSumDy] += dy;
        chain[kSumDyD] = multiply_add(dy, v.d, chain[kSumDyD]);
        if (!v.blocked) continue;
        chain[kSumBlockedDz] += dz;
        chain[kSumBlockedDzY] = multiply_add(dz, v.y, chain[kSumBlockedDzY]);
      }
      for (int sum = 0; sum < kGradientSums; ++sum) totals[sum] += static_cast<double>(chain[sum]);
    }
    for (int sum = 0; sum < kGradientSums; ++sum) {
      const double total = team_sum(totals[sum], a.cut.team);
      if (lane == 0) store_shared(shared_sum(a, p, sum, item.slot), total);
    }
  });
}

template <typename T>
FRN_DEVICE void write_dx(const Arguments<T>& a, const Patch& p, const TilePair<T>& tiles, const Item& item, int lane,
                         const Coefficients<Accumulate<T>>& k) {
  for_each_position(a.cut, p, item, lane, [&](int i) {
    const auto v = evaluate(a.norm, a.threshold, tiles.x.get(item.row, i), k);
    const auto dy = dy_of(a.threshold, tiles.dz.get(item.row, i), v.blocked, k);
    tiles.x.put(item.row, i, dx_of(a.norm, dy, v.d, k));
  });
}

// A row's sums.
struct RowSums {
  double of[kGradientSums];
};

template <typename T>
FRN_DEVICE RowSums sum_parts(const Arguments<T>& a, const Patch& p, int row) {
  RowSums sums = {};
  for (int part = 0; part < a.cut.parts; ++part) {
    const int slot = slot_of(a.cut, p, row, part);
    for (int sum = 0; sum < kGradientSums; ++sum) sums.of[sum] += load_shared(shared_sum(a, p, sum, slot));
  }
  return sums;
}

// What a row adds to its group: sum(gamma*dy) and sum(gamma*dy*xhat).
struct GroupShare {
  double ghat;
  double ghat_xhat;
};

// Writes a row's share of the parameters' gradients.
template <typename T>
FRN_DEVICE GroupShare finish_row(const Arguments<T>& a, const Row& row, const RowSums& sums) {
  using A = Accumulate<T>;
  const double rstd = a.norm == Norm::kIdentity ? 1.0 : static_cast<double>(load_global(a.rstd + row.group));
  const double dy_xhat = rstd * sums.of[kSumDyD];
  const auto gamma = static_cast<double>(parameter(a.gamma, row.channel, A(1)));
  const auto keep = [&](int partial, double value) {
    if (a.gradients[partial] == nullptr) return;
    store_global(a.partials + (row.sample * kPartials + partial) * a.channels + row.channel, static_cast<A>(value));
  };
  keep(kBetaRow, sums.of[kSumDy]);
  keep(kGammaRow, dy_xhat);
  keep(kTauRow, sums.of[kSumBlockedDz]);
  keep(kKappaRow, sums.of[kSumBlockedDzY]);
  return {gamma * sums.of[kSumDy], gamma * dy_xhat};
}

// The coefficients of xhat and of 1 in dx, and eps's share.
template <typename A>
struct GroupCoefficients {
  A xhat_scale;
  A shift;
};
template <typename T>
FRN_DEVICE GroupCoefficients<Accumulate<T>> finish_group(const Arguments<T>& a, int64_t group, GroupShare sums,
                                                         bool first_lane) {
  using A = Accumulate<T>;
  const auto rstd = static_cast<double>(load_global(a.rstd + group));
  const double size = static_cast<double>(int64_t{a.group_channels} * a.positions);
  if (first_lane && a.gradients[kEpsRow] != nullptr) {
    A* const eps_row = a.partials + (group / a.groups * kPartials + kEpsRow) * a.channels;
    store_global(eps_row + group % a.groups, static_cast<A>(-0.5 * rstd * rstd * sums.ghat_xhat));
  }
  return {static_cast<A>(-rstd * sums.ghat_xhat / size), static_cast<A>(-rstd * sums.ghat / size)};
}

template <typename T>
FRN_KERNEL backward_resident(FRN_ARGUMENT Arguments<T> a) {
  const Patch p = patch_of_block(a);
  const TilePair<T> tiles = load_both(a, p);
  block_barrier();
  sum_gradients(a, p, tiles);
  block_barrier();
  // A row's two numbers for its group replace the sums of its first part.
  for (int row = thread_index(); row < p.rows; row += block_threads()) {
    const GroupShare share = finish_row(a, row_of(a, p, row), sum_parts(a, p, row));
    store_shared(shared_sum(a, p, 0, slot_of(a.cut, p, row, 0)), share.ghat);
    store_shared(shared_sum(a, p, 1, slot_of(a.cut, p, row, 0)), share.ghat_xhat);
  }
  block_barrier();
  const int team = a.cut.group_team;
  for (int g = thread_index() / team; g < p.rows / a.group_channels; g += block_threads() / team) {
    const int first = g * a.group_channels;
    const auto sum_rows = [&](int which) {
      return team_sum_of(a.group_channels, team,
                         [&](int c) { return load_shared(shared_sum(a, p, which, slot_of(a.cut, p, first + c, 0))); });
    };
    const GroupShare sums{sum_rows(0), sum_rows(1)};
    const bool first_lane = thread_index() % team == 0;
    const auto k = finish_group(a, row_of(a, p, first).group, sums, first_lane);
    if (!first_lane) continue;
    store_shared(shared_group(a, g, 0), k.xhat_scale);
    store_shared(shared_group(a, g, 1), k.shift);
  }
  if (a.out == nullptr) return;
  block_barrier();
  for_each_item(a, p, [&](const Item& item, int lane) {
    auto k = coefficients_of_row(a, row_of(a, p, item.row));
    k.xhat_scale = load_shared(shared_group(a, item.row / a.group_channels, 0));
    k.shift = load_shared(shared_group(a, item.row / a.group_channels, 1));
    write_dx(a, p, tiles, item, lane, k);
  });
  block_barrier();
  store_tile(a, p, tiles.x, a.out);
}

// The sums of patches. Norm::kIdentity needs none for dx, and writes it here.
template <typename T>
FRN_KERNEL backward_sums(FRN_ARGUMENT Arguments<T> a) {
  const Patch p = patch_of_block(a);
  const TilePair<T> tiles = load_both(a, p);
  block_barrier();
  sum_gradients(a, p, tiles);
  const bool dx_here = a.norm == Norm::kIdentity && a.out != nullptr;
  if (dx_here) {
    for_each_item(a, p, [&](const Item& item, int lane) {
      write_dx(a, p, tiles, item, lane, coefficients_of_row(a, row_of(a, p, item.row)));
    });
  }
  block_barrier();
  for (int row = thread_index(); row < p.rows; row += block_threads()) {
    const RowSums sums = sum_parts(a, p, row);
    const Row at = row_of(a, p, row);
    for (int sum = 0; sum < kGradientSums; ++sum) {
      store_global(segment_sum(a, kGradientSums, at.sample, p.segment, sum, at.channel), sums.of[sum]);
    }
  }
  if (dx_here) store_tile(a, p, tiles.x, a.out);
}

// A warp per group: the shares of its rows, then its coefficients.
template <typename T>
FRN_KERNEL backward_statistics(FRN_ARGUMENT Arguments<T> a) {
  const int64_t index = block_index() * (block_threads() / kWarp) + thread_index() / kWarp;
  if (index >= a.samples * a.groups) return;
  const int64_t group = a.first_sample * a.groups + index;
  const int64_t sample = group / a.groups;
  const int first = static_cast<int>(group % a.groups) * a.group_channels;
  GroupShare mine{0, 0};
  for (int c = thread_index() % kWarp; c < a.group_channels; c += kWarp) {
    RowSums sums = {};
    for (int segment = 0; segment < a.cut.segments; ++segment) {
      for (int sum = 0; sum < kGradientSums; ++sum) {
        sums.of[sum] += load_global(segment_sum(a, kGradientSums, sample, segment, sum, first + c));
      }
    }
    const GroupShare share = finish_row(a, Row{first + c, sample, group}, sums);
    mine.ghat += share.ghat;
    mine.ghat_xhat += share.ghat_xhat;
  }
  if (a.norm == Norm::kIdentity) return;
  const GroupShare all{team_sum(mine.ghat, kWarp), team_sum(mine.ghat_xhat, kWarp)};
  const bool first_lane = thread_index() % kWarp == 0;
  const auto k = finish_group(a, group, all, first_lane);
  if (!first_lane) return;
  store_global(a.coefficients + 2 * group, k.xhat_scale);
  store_global(a.coefficients + 2 * group + 1, k.shift);
}

template <typename T>
FRN_KERNEL backward_apply(FRN_ARGUMENT Arguments<T> a) {
  const Patch p = patch_of_block(a);
  const TilePair<T> tiles = load_both(a, p);
  block_barrier();
  for_each_item(a, p, [&](const Item& item, int lane) {
    const Row row = row_of(a, p, item.row);
    auto k = coefficients_of_row(a, row);
    k.xhat_scale = load_global(a.coefficients + 2 * row.group);
    k.shift = load_global(a.coefficients + 2 * row.group + 1);
    write_dx(a, p, tiles, item, lane, k);
  });
  block_barrier();
  store_tile(a, p, tiles.x, a.out);
}

}  // namespace frn::kernels::cuda
