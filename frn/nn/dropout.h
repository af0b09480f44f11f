// Dropout whose masks belong to samples: a sample's units are dropped alike however its batch is cut into devices,
// pieces and processes.
#pragma once

#include <ATen/core/Tensor.h>

#include <span>

#include "frn/core/random.h"

namespace frn {

// While it lives, the masks that this thread's models draw follow from the keys: one for each sample that goes through
// the model, in their order. The n-th dropout of a forward pass draws its own mask, so make one for each pass.
class DropoutKeys {
 public:
  explicit DropoutKeys(std::span<const RandomKey> keys);
  ~DropoutKeys();
  DropoutKeys(const DropoutKeys&) = delete;
  DropoutKeys& operator=(const DropoutKeys&) = delete;

 private:
  friend at::Tensor drop_units(const at::Tensor& x, double share, bool training);
  std::span<const RandomKey> keys_;
  uint64_t layer_ = 0;
  DropoutKeys* outer_;
};

// In training sets a share of the units to 0 and divides the others by 1-share. x is [samples, ...]. Without keys, or
// with none for this batch, masks come from PyTorch's generator.
at::Tensor drop_units(const at::Tensor& x, double share, bool training);

}  // namespace frn
