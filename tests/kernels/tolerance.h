// How far results may be from the formulas in double: float within 4 units in the last place of the magnitudes that
// were added up.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "tests/kernels/truth.h"

namespace frn::kernels {

template <typename T>
struct Rounding;
template <>
struct Rounding<float> {
  static constexpr double kUnit = 0x1p-24, kStored = 0, kSmallest = 0;
};
template <>
struct Rounding<double> {
  static constexpr double kUnit = 0x1p-53, kStored = 0, kSmallest = 0;
};
// 16-bit results are those of float, rounded once more when stored: half a unit in the last place, of denormals too.
template <>
struct Rounding<BFloat16> {
  static constexpr double kUnit = 0x1p-24, kStored = 0x1p-8, kSmallest = 0x1p-134;
};
template <>
struct Rounding<Float16> {
  static constexpr double kUnit = 0x1p-24, kStored = 0x1p-11, kSmallest = 0x1p-25;
};

template <typename T>
void expect_within(const char* what, const std::vector<double>& got, const std::vector<double>& want,
                   const std::vector<double>& magnitude, const std::vector<double>& flips, double units,
                   double underflow, bool stored) {
  if (got.empty()) return;  // a gradient that this call does not have
  ASSERT_EQ(got.size(), want.size()) << what;
  for (size_t i = 0; i < got.size(); ++i) {
    double tolerance = units * Rounding<T>::kUnit * magnitude[i] + flips[i] + underflow;
    if (stored) tolerance += Rounding<T>::kStored * (std::abs(want[i]) + tolerance) + Rounding<T>::kSmallest;
    ASSERT_LE(std::abs(got[i] - want[i]), tolerance)
        << what << "[" << i << "] is " << got[i] << ", should be " << want[i] << ", magnitude " << magnitude[i];
  }
}

// The truth is computed once for all implementations that are compared with it: it takes longer than they do.
template <typename T>
void expect_as_in_truth(const Call& call, const Truth& truth, const Results& got) {
  // Four units in the last place are eight rounding units. Sums of doubles have no wider type to go to: there the
  // longest chain, the reference's over a map and then over a group's channels, adds a unit per term.
  double units = 8;
  if (std::is_same_v<T, double>) {
    const int64_t channels_of_a_group = call.shape.channels / call.groups;
    units += static_cast<double>(call.shape.positions + channels_of_a_group);
  }
  // Each product may also round to the grid of denormals; rstd^3, at most, multiplies a sum of them (in deps).
  const double smallest = std::is_same_v<T, double> ? 0x1p-1074 : 0x1p-149;
  const double underflow =
      smallest * static_cast<double>(2 + call.size()) * std::max(1.0, std::pow(call.eps / 2, -1.5));
  const auto compare = [&](const char* what, std::vector<double> Results::*r, bool stored) {
    expect_within<T>(what, got.*r, truth.value.*r, truth.magnitude.*r, truth.flips.*r, units, underflow, stored);
  };
  compare("z", &Results::z, true);
  compare("dx", &Results::dx, true);
  compare("dshortcut", &Results::dshortcut, true);
  compare("dgamma", &Results::dgamma, false);
  compare("dbeta", &Results::dbeta, false);
  compare("dtau", &Results::dtau, false);
  compare("dkappa", &Results::dkappa, false);
  // Per group, or one number for one eps.
  const auto deps_as_got = [&](std::vector<double> deps) {
    if (got.deps.size() == 1) deps = {std::accumulate(deps.begin(), deps.end(), 0.0)};
    return deps;
  };
  expect_within<T>("deps", got.deps, deps_as_got(truth.value.deps), deps_as_got(truth.magnitude.deps),
                   deps_as_got(truth.flips.deps), units, underflow, false);
}
template <typename T>
void expect_as_in_truth(const Call& call, const Inputs& in, const Results& got) {
  expect_as_in_truth<T>(call, compute_truth(call, in, Rounding<T>::kUnit), got);
}

}  // namespace frn::kernels
