// Random numbers of training that leave the caller's alone.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

#include <cstdint>

namespace frn::train {

// While it lives torch's generator of a device gives the numbers that follow from the seed, and afterwards goes on as
// if nothing had happened: training must not change its caller's random numbers.
class OwnRandomNumbers {
 public:
  OwnRandomNumbers(uint64_t seed, at::Device device);
  ~OwnRandomNumbers();
  OwnRandomNumbers(const OwnRandomNumbers&) = delete;
  OwnRandomNumbers& operator=(const OwnRandomNumbers&) = delete;

 private:
  at::Generator generator_;
  at::Tensor before_;
};

}  // namespace frn::train
