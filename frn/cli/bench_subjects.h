// The layers that `frn bench kernels` measures side by side: ours and their peers in ATen.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

namespace frn::cli {

struct Subject {
  std::string name;
  std::function<at::Tensor(const at::Tensor& x)> forward;
  std::vector<at::Tensor> parameters;
};

// frn+tlu (ours), the same composed of ATen's operators, then bn+relu, gn+relu (32 channels a group) and in+relu in
// ATen (on a GPU cuDNN's, where ATen takes them). Parameters are float32 for 16-bit x, as under autocast.
std::vector<Subject> bench_subjects(int64_t channels, at::ScalarType type, at::Device device);

// z, then the gradients of x and of the parameters.
void forward_and_backward(const Subject& subject, const at::Tensor& x, const at::Tensor& dz);

// Bytes that stay alive between forward and backward, x included.
int64_t bytes_kept(const Subject& subject, const at::Tensor& x);

// Copies all of `from` to `to` on ATen's threads, by whichever of ATen's copy and memcpy is asked for.
void copy_with_aten(const at::Tensor& from, at::Tensor& to);
void copy_with_memcpy(const at::Tensor& from, at::Tensor& to);

}  // namespace frn::cli
