// A call of the kernels with its data, run by any implementation; and the same computed in double, with, for every
// result, the sum of the magnitudes that were added up to make it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "frn/kernels/driver.h"
#include "tests/kernels/case_file.h"

namespace frn::kernels {

struct Call {
  Shape shape;
  int64_t groups;
  Layout layout;
  Norm norm;
  Threshold threshold;
  bool added = false;  // a shortcut is added to y
  bool eps_per_channel = false;
  double eps = 1e-3;
  double scale = 1.0;    // of x
  double offset = 0.3;   // of x, in units of scale
  int64_t misalign = 1;  // elements that the arrays start after an aligned address
  int threads = 1;
  bool stream = false;
  uint64_t seed = 1;

  int64_t size() const { return shape.samples * shape.channels * shape.positions; }
};

// Values in double; inputs are already rounded to T, so that every implementation starts from the same numbers.
struct Inputs {
  std::vector<double> x, dz, gamma, beta, tau, kappa, eps;
  std::vector<double> shortcut;  // empty where none is added
};
template <typename T>
Inputs make_inputs(const Call& call);

struct Results {
  std::vector<double> z, dx;
  std::vector<double> dgamma, dbeta, dtau, dkappa, deps;  // summed over samples; deps per group
  std::vector<double> dshortcut = {};                     // empty where none is added
};

// Runs an implementation on arrays with guard values around them and fails the test if one was overwritten.
template <typename T>
Results run(const Call& call, const Inputs& inputs, const Implementation& implementation);

struct Truth {
  Results value;
  Results magnitude;
  Results flips;  // what may change if values within rounding of their threshold change sides
};
// `unit` is the rounding unit of the arithmetic, 2^-24 for float.
Truth compute_truth(const Call& call, const Inputs& inputs, double unit);

}  // namespace frn::kernels
