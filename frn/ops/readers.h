// The convolutions that read a norm's result, and their gradients, for the functions that do not keep that result.
#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "frn/ops/ops.h"

namespace frn::ops {

// A convolution without its tensors.
struct Geometry {
  std::vector<int64_t> stride, padding, dilation;
  int64_t groups;
  bool bias;
};

// Readers as autograd takes them: filters, bias, filters, bias, ... without those that are missing.
struct FlatReaders {
  std::vector<at::Tensor> tensors;
  std::vector<Geometry> geometries;
};
FRN_API FlatReaders flat(const std::vector<Convolution>& readers);

FRN_API std::vector<at::Tensor> convolve(const at::Tensor& z, at::TensorList tensors,
                                         const std::vector<Geometry>& geometries);

// Whether some reader's filters need a gradient, which is what needs z.
FRN_API bool filters_need(const std::vector<Geometry>& geometries, const std::vector<bool>& needs);

struct ReaderGradients {
  at::Tensor dz;  // undefined where it is not needed
  std::vector<at::Tensor> tensors;
};
// Gives each of `douts` free once it is used.
FRN_API ReaderGradients convolve_backward(std::vector<at::Tensor>& douts, const at::Tensor& z, at::TensorList tensors,
                                          const std::vector<Geometry>& geometries, bool needs_dz,
                                          const std::vector<bool>& needs);

}  // namespace frn::ops
