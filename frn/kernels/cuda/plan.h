// Which kernels a call runs, on what grids, with how much shared memory: host code without CUDA, so that it can be
// tested anywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "frn/kernels/cuda/arguments.h"
#include "frn/kernels/cuda/kernel_list.h"

namespace frn::kernels::cuda {

struct Device {
  int64_t shared_per_block;  // that a kernel may ask for
  int64_t multiprocessors;
  int64_t l2_bytes;
};

// A call of norm_act or act, forward or backward, as far as the choice of kernels depends on it.
struct CallShape {
  int64_t samples = 0;
  int64_t channels = 0;
  int64_t positions = 0;
  int64_t groups = 0;
  int64_t value_bytes = 0;
  int64_t accumulate_bytes = 0;
  Layout layout = Layout::kContiguous;
  Norm norm = Norm::kIdentity;
  bool backward = false;
  bool writes = true;  // z or dx is wanted
  bool parameter_gradients = false;
  uintptr_t x = 0;  // addresses: what they are modulo 16 decides about the width of accesses
  uintptr_t dz = 0;
  uintptr_t out = 0;

  int64_t group_channels() const { return channels / groups; }
};

struct Step {
  Kernel kernel;
  int64_t grid;
  int32_t threads;
  int32_t shared_bytes;
  int64_t first_sample;
  int64_t samples;
};

struct Plan {
  Cut cut;
  std::vector<Step> steps;
  int64_t sums = 0;          // doubles of Arguments::sums
  int64_t coefficients = 0;  // numbers of Arguments::coefficients
};

// A call with values in it. How a row's additions are ordered does not depend on the number of samples or on addresses,
// and so no bit of a sample's results does.
Plan plan_call(const CallShape& call, const Device& device);

}  // namespace frn::kernels::cuda
