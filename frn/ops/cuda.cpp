// The CUDA key: as cpu.cpp, on the current stream of x's device. Nothing here waits for the device or reads from it, so
// that CUDA graphs can record a call; hence eps is not checked to be positive, as it is on the CPU.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <limits>

#include "frn/kernels/cuda/launch.h"
#include "frn/ops/composite.h"
#include "frn/ops/internal.h"
#include "frn/ops/kernel_call.h"
#include "frn/ops/last_implementation.h"

namespace frn::ops {
namespace {

using kernels::Accumulate;
using kernels::Norm;
using kernels::Threshold;
using kernels::cuda::Arguments;
namespace cuda = kernels::cuda;

constexpr int64_t kMostOfOne = std::numeric_limits<int32_t>::max();

cuda::Device describe_device(int device) {
  const auto attribute = [device](cudaDeviceAttr name) {
    int value = 0;
    C10_CUDA_CHECK(cudaDeviceGetAttribute(&value, name, device));
    return int64_t{value};
  };
  return {attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin), attribute(cudaDevAttrMultiProcessorCount),
          attribute(cudaDevAttrL2CacheSize)};
}

// One call: its arguments, and the tensors that they point to.
template <typename T>
class CudaCall {
  using A = Accumulate<T>;

 public:
  CudaCall(const Laid& x, Norm norm, Threshold threshold, int64_t groups) : x_(x) {
    const auto& t = x.tensor;
    const int64_t positions = t.numel() / (t.size(0) * t.size(1));
    TORCH_CHECK(t.size(1) <= kMostOfOne && positions <= kMostOfOne, "[norm_act] on CUDA x must have fewer than 2^31 ",
                "channels and values per map but has shape ", t.sizes());
    a.x = static_cast<const T*>(t.const_data_ptr());
    a.samples = t.size(0);
    a.channels = static_cast<int32_t>(t.size(1));
    a.positions = static_cast<int32_t>(positions);
    a.groups = static_cast<int32_t>(groups);
    a.group_channels = a.channels / a.groups;
    a.norm = norm;
    a.threshold = threshold;
  }

  // In the accumulation type; null for one that is missing.
  const A* parameter(const OptionalTensor& given) {
    if (!given) return nullptr;
    kept_.push_back(given->to(kType).contiguous());
    return kept_.back().template const_data_ptr<A>();
  }

  at::Tensor numbers(at::IntArrayRef shape) const { return at::empty(shape, x_.tensor.options().dtype(kType)); }

  // A parameter's gradient, which the kernels fill.
  void want_gradient(int row, int64_t count) {
    gradients_[row] = numbers({count});
    a.gradients[row] = gradients_[row].template mutable_data_ptr<A>();
    if (a.partials != nullptr) return;
    kept_.push_back(numbers({a.samples, cuda::kPartials, a.channels}));
    a.partials = kept_.back().template mutable_data_ptr<A>();
  }
  at::Tensor gradient(int row, const OptionalTensor& parameter) const {
    if (!gradients_[row].defined()) return not_needed(x_.tensor);
    return gradients_[row].to(parameter->scalar_type()).reshape(parameter->sizes());
  }

  void run(bool backward) {
    const auto device = x_.tensor.device();
    const c10::cuda::CUDAGuard guard(device);
    const auto plan = cuda::plan_call(cuda::shape_of(a, x_.layout, backward), describe_device(device.index()));
    const auto options = x_.tensor.options();
    const auto sums = at::empty({plan.sums}, options.dtype(at::kDouble));
    const auto coefficients = numbers({plan.coefficients});
    a.sums = sums.template mutable_data_ptr<double>();
    a.coefficients = coefficients.template mutable_data_ptr<A>();
    const auto stream = c10::cuda::getCurrentCUDAStream(device.index());
    cuda::run_steps(plan, a, [&](const cuda::Step& step, const Arguments<T>& arguments) {
      TORCH_CHECK(step.grid <= kMostOfOne, "[norm_act] on CUDA x is too large, of shape ", x_.tensor.sizes());
      C10_CUDA_CHECK(cuda::launch<T>(step, arguments, device.index(), stream));
    });
    set_last_implementation("cuda");
  }

  Arguments<T> a{};

 private:
  static constexpr auto kType = c10::CppTypeToScalarType<A>::value;
  Laid x_;
  std::vector<at::Tensor> kept_;
  std::array<at::Tensor, cuda::kPartials> gradients_;
};

template <typename T>
CudaCall<T> describe(const NormActArguments& a, const Laid& x) {
  CudaCall<T> call(x, a.centered ? Norm::kCentered : Norm::kUncentered, threshold_kind(a.kind()), a.groups);
  call.a.gamma = call.parameter(a.weight);
  call.a.beta = call.parameter(a.bias);
  call.a.tau = call.parameter(a.tau);
  call.a.kappa = call.parameter(a.kappa);
  call.a.eps = call.parameter(a.eps);
  call.a.eps_per_channel = a.eps_per_channel();
  return call;
}

NormActResult norm_act_forward(const NormActArguments& a) {
  check_norm_act(a);
  const c10::cuda::CUDAGuard guard(a.x.device());
  const auto x = lay_out(a.x);
  const auto z = at::empty_like(x.tensor);
  const auto options = a.x.options().dtype(accumulate_type(a.x.scalar_type()));
  const auto mean = a.centered ? at::empty({a.x.size(0), a.groups}, options) : at::empty({0}, options);
  const auto rstd = at::empty({a.x.size(0), a.groups}, options);
  if (a.x.numel() == 0) return {z, mean.zero_(), rstd.zero_()};
  with_kernel_type(a.x.scalar_type(), [&]<typename T>(T) {
    using A = Accumulate<T>;
    auto call = describe<T>(a, x);
    call.a.out = static_cast<T*>(z.mutable_data_ptr());
    call.a.mean = a.centered ? mean.template mutable_data_ptr<A>() : nullptr;
    call.a.rstd = rstd.template mutable_data_ptr<A>();
    call.run(/*backward=*/false);
  });
  return {like_input(z, a.x), mean, rstd};
}

NormActGradients norm_act_backward(const NormActArguments& a, const BackwardArguments& backward) {
  check_norm_act(a);
  const c10::cuda::CUDAGuard guard(a.x.device());
  const auto& needs = backward.needs;
  check_gradient("norm_act", "x", backward.dz, a.x);
  const auto x = lay_out(a.x);
  const auto dx = needs[kX] ? at::empty_like(x.tensor) : not_needed(a.x);
  if (a.x.numel() == 0) {
    return {dx,
            zeros_if(needs[kWeight], a.weight, a.x),
            zeros_if(needs[kBias], a.bias, a.x),
            zeros_if(needs[kEps], a.eps, a.x),
            zeros_if(needs[kTau], a.tau, a.x),
            zeros_if(needs[kKappa], a.kappa, a.x)};
  }
  const auto dz = in_layout(backward.dz, x.layout, a.x.numel() == a.x.size(0) * a.x.size(1));
  return with_kernel_type(a.x.scalar_type(), [&]<typename T>(T) {
    using A = Accumulate<T>;
    auto call = describe<T>(a, x);
    // Read only: the argument is shared with forward, which writes them.
    call.a.mean = a.centered ? const_cast<A*>(backward.mean.template const_data_ptr<A>()) : nullptr;
    call.a.rstd = const_cast<A*>(backward.rstd.template const_data_ptr<A>());
    call.a.dz = static_cast<const T*>(dz.const_data_ptr());
    call.a.out = needs[kX] ? static_cast<T*>(dx.mutable_data_ptr()) : nullptr;
    const auto want = [&](bool needed, const OptionalTensor& parameter, int row) {
      if (needed && parameter) call.want_gradient(row, parameter->numel());
    };
    want(needs[kWeight], a.weight, cuda::kGammaRow);
    want(needs[kBias], a.bias, cuda::kBetaRow);
    want(needs[kTau], a.tau, cuda::kTauRow);
    want(needs[kKappa], a.kappa, cuda::kKappaRow);
    want(needs[kEps], a.eps, cuda::kEpsRow);
    call.run(/*backward=*/true);
    return std::make_tuple(needs[kX] ? like_input(dx, a.x) : dx, call.gradient(cuda::kGammaRow, a.weight),
                           call.gradient(cuda::kBetaRow, a.bias), call.gradient(cuda::kEpsRow, a.eps),
                           call.gradient(cuda::kTauRow, a.tau), call.gradient(cuda::kKappaRow, a.kappa));
  });
}

at::Tensor act_forward(const at::Tensor& y_in, const OptionalTensor& tau, const OptionalTensor& kappa,
                       std::string_view activation) {
  const auto kind = check_act(y_in, tau, kappa, activation);
  const c10::cuda::CUDAGuard guard(y_in.device());
  const auto y = lay_out(y_in);
  auto z = at::empty_like(y.tensor);
  if (y_in.numel() == 0) return z;
  with_kernel_type(y_in.scalar_type(), [&]<typename T>(T) {
    CudaCall<T> call(y, Norm::kIdentity, threshold_kind(kind), y_in.size(1));
    call.a.tau = call.parameter(tau);
    call.a.kappa = call.parameter(kappa);
    call.a.out = static_cast<T*>(z.mutable_data_ptr());
    call.run(/*backward=*/false);
  });
  return like_input(z, y_in);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> act_backward(const at::Tensor& dz_in, const at::Tensor& y_in,
                                                            const OptionalTensor& tau, const OptionalTensor& kappa,
                                                            std::string_view activation, std::array<bool, 3> needs) {
  const auto kind = check_act(y_in, tau, kappa, activation);
  const c10::cuda::CUDAGuard guard(y_in.device());
  check_gradient("act", "y", dz_in, y_in);
  const auto y = lay_out(y_in);
  const auto dy = needs[0] ? at::empty_like(y.tensor) : not_needed(y_in);
  if (y_in.numel() == 0) return {dy, zeros_if(needs[1], tau, y_in), zeros_if(needs[2], kappa, y_in)};
  const auto dz = in_layout(dz_in, y.layout, y_in.numel() == y_in.size(0) * y_in.size(1));
  return with_kernel_type(y_in.scalar_type(), [&]<typename T>(T) {
    CudaCall<T> call(y, Norm::kIdentity, threshold_kind(kind), y_in.size(1));
    call.a.tau = call.parameter(tau);
    call.a.kappa = call.parameter(kappa);
    call.a.dz = static_cast<const T*>(dz.const_data_ptr());
    call.a.out = needs[0] ? static_cast<T*>(dy.mutable_data_ptr()) : nullptr;
    if (needs[1] && tau) call.want_gradient(cuda::kTauRow, tau->numel());
    if (needs[2] && kappa) call.want_gradient(cuda::kKappaRow, kappa->numel());
    call.run(/*backward=*/true);
    return std::make_tuple(needs[0] ? like_input(dy, y_in) : dy, call.gradient(cuda::kTauRow, tau),
                           call.gradient(cuda::kKappaRow, kappa));
  });
}

}  // namespace
}  // namespace frn::ops

TORCH_LIBRARY_IMPL(frn, CUDA, m) {
  m.impl("_norm_act_forward", frn::ops::as_operator<frn::ops::norm_act_forward>);
  m.impl("_norm_act_backward", frn::ops::as_backward_operator<frn::ops::norm_act_backward>);
  m.impl("_act_forward", frn::ops::act_forward);
  m.impl("_act_backward", frn::ops::act_backward);
}
