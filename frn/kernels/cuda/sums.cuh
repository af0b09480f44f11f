// Sums over a lane's values and over a team. Additions in float are chained over a few values only, then go on in
// double: the error stays below five roundings however large the map is.
#pragma once

#include "frn/kernels/cuda/patch.cuh"

namespace frn::kernels::cuda {

inline constexpr int kChain = 8;

// add(total, position) returns the total with one more value, in the type of `total`.
template <typename A, typename Add>
FRN_DEVICE double lane_sum(const Cut& cut, const Patch& p, const Item& item, int lane, Add add) {
  const int step = cut.parts * cut.team;
  double total = 0;
  int i = item.part * cut.team + lane;
  while (i < p.positions) {
    A chain = 0;
    for (int k = 0; k < kChain && i < p.positions; ++k, i += step) chain = add(chain, i);
    total += static_cast<double>(chain);
  }
  return total;
}

// The sum over an item, the same on every lane of its team. One that is not finite is taken again in double: squares of
// floats beyond 1.8e19 overflow. Infinities and NaN in the data come out as they are.
template <typename A, typename Add>
FRN_DEVICE double item_sum(const Cut& cut, const Patch& p, const Item& item, int lane, Add add) {
  const double total = team_sum(lane_sum<A>(cut, p, item, lane, add), cut.team);
  if (is_finite(total)) return total;
  return team_sum(lane_sum<double>(cut, p, item, lane, add), cut.team);
}

// The sum of term(k) for k in [0, count), by a team.
template <typename Term>
FRN_DEVICE double team_sum_of(int count, int team, Term term) {
  double total = 0;
  for (int k = thread_index() % team; k < count; k += team) total += term(k);
  return team_sum(total, team);
}

// The double at [sum][slot] of shared memory.
template <typename T>
FRN_DEVICE double* shared_sum(const Arguments<T>& a, const Patch& p, int sum, int slot) {
  double* const first = reinterpret_cast<double*>(shared_memory() + a.cut.shared.sums);
  return first + sum * p.rows * a.cut.parts + slot;
}

// The first or second of a group's two numbers in shared memory.
template <typename T>
FRN_DEVICE Accumulate<T>* shared_group(const Arguments<T>& a, int group, int which) {
  return reinterpret_cast<Accumulate<T>*>(shared_memory() + a.cut.shared.groups) + 2 * group + which;
}

// Where a row's sum over a segment is in global memory.
template <typename T>
FRN_DEVICE double* segment_sum(const Arguments<T>& a, int sums, int64_t sample, int segment, int sum, int channel) {
  return a.sums + ((sample * a.cut.segments + segment) * sums + sum) * a.channels + channel;
}

}  // namespace frn::kernels::cuda
