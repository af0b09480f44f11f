#include "frn/cli/bench_subjects.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/batch_norm.h>
#include <ATen/ops/full.h>
#include <ATen/ops/group_norm.h>
#include <ATen/ops/instance_norm.h>
#include <ATen/ops/maximum.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/zeros.h>
#include <torch/autograd.h>

#include <algorithm>
#include <cstring>

#include "frn/cli/allocator.h"
#include "frn/ops/ops.h"

namespace frn::cli {
namespace {

at::Tensor parameter(int64_t channels, double value, const at::TensorOptions& options) {
  return at::full({channels}, value, options).set_requires_grad(true);
}

// The paper's listing, operator by operator.
at::Tensor composed_frn_tlu(const at::Tensor& x, const at::Tensor& gamma, const at::Tensor& beta,
                            const at::Tensor& tau) {
  const auto nu2 = x.square().mean({2, 3}, /*keepdim=*/true);
  const auto xhat = x * at::rsqrt(nu2 + 1e-6);
  return at::maximum(gamma.view({1, -1, 1, 1}) * xhat + beta.view({1, -1, 1, 1}), tau.view({1, -1, 1, 1}));
}

}  // namespace

std::vector<Subject> bench_subjects(int64_t channels, at::ScalarType type, at::Device device) {
  const auto wide = at::dtype(type == at::kDouble ? at::kDouble : at::kFloat).device(device);
  const bool cudnn = device.is_cuda();
  const auto gamma = parameter(channels, 1, wide);
  const auto beta = parameter(channels, 0, wide);
  const auto tau = parameter(channels, 0, wide);
  const auto eps = at::full({}, 1e-6, wide.dtype(at::kDouble));
  const auto narrow = [type](const at::Tensor& t) { return t.detach().to(type).set_requires_grad(true); };
  const auto gamma_x = narrow(gamma);
  const auto beta_x = narrow(beta);
  const auto tau_x = narrow(tau);
  const auto running_mean = at::zeros({channels}, wide);
  const auto running_var = at::ones({channels}, wide);
  std::vector<Subject> out;
  out.push_back(
      {"frn+tlu", [=](const at::Tensor& x) { return frn_tlu(x, gamma, beta, tau, eps); }, {gamma, beta, tau}});
  out.push_back({"composed",
                 [=](const at::Tensor& x) { return composed_frn_tlu(x, gamma_x, beta_x, tau_x); },
                 {gamma_x, beta_x, tau_x}});
  out.push_back({"bn+relu",
                 [=](const at::Tensor& x) {
                   return at::relu(at::batch_norm(x, gamma, beta, running_mean, running_var, /*training=*/true, 0.1,
                                                  1e-5,
                                                  /*cudnn_enabled=*/cudnn));
                 },
                 {gamma, beta}});
  out.push_back({"gn+relu",
                 [=](const at::Tensor& x) { return at::relu(at::group_norm(x, channels / 32, gamma, beta, 1e-5)); },
                 {gamma, beta}});
  out.push_back({"in+relu",
                 [=](const at::Tensor& x) {
                   return at::relu(at::instance_norm(x, gamma_x, beta_x, {}, {}, /*use_input_stats=*/true, 0.1, 1e-5,
                                                     /*cudnn_enabled=*/cudnn));
                 },
                 {gamma_x, beta_x}});
  return out;
}

void forward_and_backward(const Subject& subject, const at::Tensor& x, const at::Tensor& dz) {
  const auto z = subject.forward(x);
  torch::autograd::variable_list inputs{x};
  inputs.insert(inputs.end(), subject.parameters.begin(), subject.parameters.end());
  torch::autograd::grad({z}, inputs, {dz});
}

int64_t bytes_kept(const Subject& subject, const at::Tensor& x) {
  const auto source = x.detach().set_requires_grad(true);
  const TensorBytes bytes;
  c10::intrusive_ptr<torch::autograd::Node> graph;
  {
    const auto inner = source * 1.0;  // not a leaf: it lives on only if the layer keeps it
    graph = subject.forward(inner).grad_fn();
  }
  return bytes.live();
}

void copy_with_aten(const at::Tensor& from, at::Tensor& to) { to.copy_(from); }

void copy_with_memcpy(const at::Tensor& from, at::Tensor& to) {
  constexpr int64_t kChunk = int64_t{64} * 1024;
  const auto bytes = static_cast<int64_t>(from.nbytes());
  const auto* const source = static_cast<const std::byte*>(from.const_data_ptr());
  auto* const target = static_cast<std::byte*>(to.mutable_data_ptr());
  at::parallel_for(0, (bytes + kChunk - 1) / kChunk, 1, [&](int64_t begin, int64_t end) {
    const int64_t first = begin * kChunk;
    std::memcpy(target + first, source + first, static_cast<size_t>(std::min(end * kChunk, bytes) - first));
  });
}

}  // namespace frn::cli
