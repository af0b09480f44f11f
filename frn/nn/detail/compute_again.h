// A norm's result and the convolutions that read it, without keeping the result: for methods that are not one fused
// operator. Those are frn::norm_act_convs.
#pragma once

#include <functional>
#include <vector>

#include "frn/ops/ops.h"

namespace frn {

// z of x and of a layer's parameters, which may be undefined, by differentiable operators. Must give the same bits for
// the same numbers, whenever it is called, and change nothing.
using GiveZ = std::function<at::Tensor(const at::Tensor& x, const std::vector<at::Tensor>& parameters)>;

// What the readers make of z, which give_z(x, parameters) gives as often as it is asked.
std::vector<at::Tensor> convolve_computing_again(const at::Tensor& z, const at::Tensor& x,
                                                 const std::vector<at::Tensor>& parameters, GiveZ give_z,
                                                 const std::vector<Convolution>& readers);

}  // namespace frn
