// The CPU key: brings tensors into the layout that the kernels take, allocates, and runs them on ATen's threads.
#include <ATen/EmptyTensor.h>
#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/full.h>
#include <torch/library.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "frn/core/error.h"
#include "frn/kernels/driver.h"
#include "frn/kernels/kernels.h"
#include "frn/ops/composite.h"
#include "frn/ops/internal.h"
#include "frn/ops/kernel_call.h"
#include "frn/ops/last_implementation.h"
#include "frn/ops/norm_add_act.h"

namespace frn::ops {
namespace {

using kernels::Layout;
using kernels::Norm;
using kernels::Threshold;

// Tensors of no values yet, past the dispatcher: a call makes up to nine of them, and on small maps that showed.
at::Tensor new_tensor(at::IntArrayRef sizes, at::ScalarType type) {
  return at::Tensor(at::detail::empty_cpu(sizes, type));
}

at::Tensor new_like(const at::Tensor& x) {
  if (!x.is_non_overlapping_and_dense()) return at::empty_like(x);
  return at::Tensor(at::detail::empty_strided_cpu(x.sizes(), x.strides(), x.scalar_type()));
}

// not_needed(), which other devices share and which goes through the dispatcher.
at::Tensor no_gradient(const at::Tensor& x) { return new_tensor({0}, x.scalar_type()); }

// Whether a result is written around the cache, which saves reading its lines first. It pays when the result would not
// stay in the last-level cache anyway, and only in whole lines: short contiguous maps start and end inside lines, and
// half-written lines cost ten times as much (14x14 maps, Zen 4).
bool worth_streaming(const Laid& x, int64_t positions) {
  // A server's cache of hundreds of megabytes is shared by its cores and their guests: counting on 260 MB of it made
  // maps of 50 MB half as fast (Xeon, 2 cores of a virtual machine).
  static constexpr size_t kLargestShare = size_t{32} << 20;
  static const size_t cache = [] {
    const long size = sysconf(_SC_LEVEL3_CACHE_SIZE);
    return size > 0 ? std::min(static_cast<size_t>(size), kLargestShare) : kLargestShare;
  }();
  constexpr size_t kLongMap = 2048;  // bytes
  const size_t bytes = x.tensor.nbytes();
  if (x.layout == Layout::kChannelsLast) return bytes > cache / 4;
  return bytes > cache / 2 && static_cast<size_t>(positions) * x.tensor.element_size() >= kLongMap;
}

struct TorchParallel {
  int64_t grain;
  template <typename F>
  void operator()(int64_t count, const F& f) const {
    at::parallel_for(0, count, grain, [&](int64_t begin, int64_t end) { f(begin, end, at::get_thread_num()); });
  }
};

// Pieces per parallel task, so that a task has at least kernels::kValuesPerThread values.
TorchParallel parallel_over(int64_t pieces, int64_t values) {
  const int64_t per_piece = std::max<int64_t>(1, values / std::max<int64_t>(1, pieces));
  return {std::max<int64_t>(1, kernels::kValuesPerThread / per_piece)};
}

// `count` times the number, in memory that stays as it is until this thread asks for more of it: of one call, all have
// the same count. Small maps would notice a tensor that is filled anew.
template <typename A>
const A* filled(int64_t count, bool with_ones) {
  thread_local std::vector<A> zeros;
  thread_local std::vector<A> ones;
  auto& values = with_ones ? ones : zeros;
  if (static_cast<int64_t>(values.size()) < count) values.assign(static_cast<size_t>(count), A(with_ones ? 1 : 0));
  return values.data();
}

// The parameters in the accumulation type, those that are missing filled in; owns what the Problem points to where that
// is not the parameter itself, which the caller holds.
template <typename A>
class Parameters {
 public:
  explicit Parameters(int64_t channels) : channels_(channels) {}

  const A* get(const OptionalTensor& parameter, bool one_if_missing) {
    constexpr auto kType = c10::CppTypeToScalarType<A>::value;
    if (!parameter) return filled<A>(channels_, one_if_missing);
    if (parameter->scalar_type() == kType && parameter->is_contiguous()) return parameter->template const_data_ptr<A>();
    kept_.push_back(parameter->to(kType).contiguous());
    return kept_.back().template const_data_ptr<A>();
  }

 private:
  int64_t channels_;
  std::vector<at::Tensor> kept_;
};

template <typename T>
kernels::Problem<T> describe(const Laid& x, int64_t groups, Norm norm, Threshold threshold) {
  kernels::Problem<T> p;
  p.samples = x.tensor.size(0);
  p.channels = x.tensor.size(1);
  p.positions = x.tensor.numel() / std::max<int64_t>(1, p.samples * p.channels);
  p.groups = groups;
  p.layout = x.layout;
  p.norm = norm;
  p.threshold = threshold;
  p.x = reinterpret_cast<const T*>(x.tensor.const_data_ptr());
  p.stream = worth_streaming(x, p.positions);
  return p;
}

template <typename T>
kernels::Problem<T> describe(const NormActArguments& a, const Laid& x, Parameters<kernels::Accumulate<T>>& parameters) {
  auto p = describe<T>(x, a.groups, a.centered ? Norm::kCentered : Norm::kUncentered, threshold_kind(a.kind()));
  p.gamma = parameters.get(a.weight, /*one_if_missing=*/true);
  p.beta = parameters.get(a.bias, false);
  p.tau = parameters.get(a.tau, false);
  p.kappa = parameters.get(a.kappa, false);
  p.eps = parameters.get(a.eps, false);
  p.eps_per_channel = a.eps_per_channel();
  return p;
}

template <typename T>
at::Tensor workspace_for(const kernels::Problem<T>& p, const kernels::Plan& plan, int threads) {
  const auto bytes = static_cast<int64_t>(kernels::workspace_bytes(p, plan, threads));
  return new_tensor({bytes}, at::kByte);  // CPU tensors are 64-byte aligned
}

// Which of the implementations to use; a wrong FRN_IMPLEMENTATION becomes an ordinary PyTorch error here.
const kernels::Implementation& implementation() {
  try {
    const auto& chosen = kernels::chosen_implementation();
    set_last_implementation(chosen.name);
    return chosen;
  } catch (const Error& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

void check_eps_values(const at::Tensor& eps, const char* operation) {
  const bool wide = eps.scalar_type() == at::kDouble && eps.is_contiguous();
  const auto values = wide ? eps : eps.to(at::kDouble).contiguous();
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double value = values.const_data_ptr<double>()[i];
    TORCH_CHECK_VALUE(value > 0 && std::isfinite(value), "[", operation, "] eps must be positive and finite but is ",
                      value, "; the paper uses 1e-6, or 1e-6 + |eps_l| when it is learned");
  }
}

// run(driver, parallel) with a problem's plan, memory and threads; `inputs`: tensors of x's size that are read.
template <typename T, typename Run>
void with_driver(const kernels::Problem<T>& p, int inputs, const Run& run) {
  const int threads = at::get_num_threads();
  const auto plan = kernels::make_plan(p, inputs, threads);
  const auto workspace = workspace_for(p, plan, threads);
  const auto& loops = implementation().loops<T>(p.layout);
  kernels::Driver<T> driver(p, loops, plan, reinterpret_cast<std::byte*>(workspace.mutable_data_ptr()));
  run(driver, parallel_over(plan.pieces(p.samples, p.channels), p.samples * p.channels * p.positions));
}

template <typename T>
void run_forward(const kernels::Problem<T>& p, T* z) {
  const int inputs = p.shortcut == nullptr ? 1 : 2;
  with_driver(p, inputs, [z](auto& driver, const TorchParallel& parallel) { driver.forward(z, parallel); });
}

template <typename T>
void run_backward(const kernels::BackwardProblem<T>& p) {
  const int inputs = p.shortcut == nullptr ? 2 : 3;
  with_driver<T>(p, inputs, [&p](auto& driver, const TorchParallel& parallel) { driver.backward(p, parallel); });
}

bool single_values(const at::Tensor& x) { return x.numel() == x.size(0) * x.size(1); }

// Points the problem to a shortcut in x's layout; `kept` owns it where it had to be copied.
template <typename T>
void add_shortcut(kernels::Problem<T>& p, const OptionalTensor& shortcut, at::Tensor& kept) {
  if constexpr (kernels::kAddsShortcut<T>) {
    if (!shortcut) return;
    kept = in_layout(*shortcut, p.layout, single_values(*shortcut));
    p.shortcut = reinterpret_cast<const T*>(kept.const_data_ptr());
  }
}

// With a shortcut: norm_add_act, of arguments that kernels_add().
NormActResult forward_by_kernels(const NormActArguments& a, const OptionalTensor& shortcut) {
  const auto x = lay_out(a.x);
  const auto z = new_like(x.tensor);
  const auto type = accumulate_type(a.x.scalar_type());
  const auto mean = a.centered ? new_tensor({a.x.size(0), a.groups}, type) : new_tensor({0}, type);
  const auto rstd = new_tensor({a.x.size(0), a.groups}, type);
  if (a.x.numel() == 0) return {z, mean.zero_(), rstd.zero_()};
  with_kernel_type(a.x.scalar_type(), [&]<typename T>(T) {
    using A = kernels::Accumulate<T>;
    Parameters<A> parameters(a.channels());
    auto p = describe<T>(a, x, parameters);
    at::Tensor added;
    add_shortcut(p, shortcut, added);
    p.mean = a.centered ? mean.template mutable_data_ptr<A>() : nullptr;
    p.rstd = rstd.template mutable_data_ptr<A>();
    run_forward(p, reinterpret_cast<T*>(z.mutable_data_ptr()));
  });
  return {like_input(z, a.x), mean, rstd};
}

NormActResult norm_act_forward(const NormActArguments& a) {
  check_norm_act(a);
  check_eps_values(a.eps, "norm_act");
  return forward_by_kernels(a, std::nullopt);
}

// Whether the loops can add this shortcut (kernels/types.h says why not all of them); the three operators run
// otherwise.
bool kernels_add(const NormAddActArguments& a) {
  const auto type = a.norm.x.scalar_type();
  return (type == at::kFloat || type == at::kBFloat16) && a.shortcut.scalar_type() == type &&
         a.norm.kind() != Activation::kNone;
}

NormActResult norm_add_act_forward(const NormAddActArguments& a) {
  a.check();
  check_eps_values(a.norm.eps, "norm_add_act");
  return kernels_add(a) ? forward_by_kernels(a.norm, a.shortcut) : composed_forward(a);
}

// Sums a row of the partials over the samples, in double and in the order of the samples.
template <typename A>
at::Tensor sum_over_samples(const at::Tensor& partials, int row, int64_t columns) {
  const int64_t samples = partials.size(0);
  const int64_t sample_stride = partials.stride(0);
  const A* const first = partials.const_data_ptr<A>() + row * partials.stride(1);
  auto out = new_tensor({columns}, partials.scalar_type());
  A* const target = out.mutable_data_ptr<A>();
  if (samples == 1) {
    // The same bits as below, where a sum that starts at 0 is never -0.
    for (int64_t c = 0; c < columns; ++c) target[c] = first[c] + A(0);
    return out;
  }
  constexpr int64_t kBlock = 64;  // columns: whole cache lines of the result per task
  at::parallel_for(0, (columns + kBlock - 1) / kBlock,
                   std::max<int64_t>(1, kernels::kValuesPerThread / (kBlock * std::max<int64_t>(samples, 1))),
                   [&](int64_t begin, int64_t end) {
                     for (int64_t block = begin; block < end; ++block) {
                       double totals[kBlock] = {};
                       const int64_t c0 = block * kBlock;
                       const int64_t count = std::min(kBlock, columns - c0);
                       for (int64_t n = 0; n < samples; ++n) {
                         const A* const source = first + n * sample_stride + c0;
                         for (int64_t c = 0; c < count; ++c) totals[c] += static_cast<double>(source[c]);
                       }
                       for (int64_t c = 0; c < count; ++c) target[c0 + c] = static_cast<A>(totals[c]);
                     }
                   });
  return out;
}

// The partials of a backward pass, and from them the gradients of the parameters that need one.
template <typename A>
struct Partials {
  at::Tensor x;
  at::Tensor memory;

  Partials(const Laid& laid) : x(laid.tensor) {
    memory = new_tensor({x.size(0), kernels::kPartialRows, x.size(1)}, c10::CppTypeToScalarType<A>::value);
  }
  at::Tensor gradient(bool needed, const OptionalTensor& parameter, int row) const {
    if (!needed || !parameter) return no_gradient(x);
    return sum_over_samples<A>(memory, row, memory.size(2)).to(parameter->scalar_type());
  }
  at::Tensor eps_gradient(bool needed, const NormActArguments& a) const {
    if (!needed) return no_gradient(x);
    const auto per_group = sum_over_samples<A>(memory, kernels::kPartialEps, a.groups);
    if (a.eps_per_channel()) return per_group.to(a.eps.scalar_type());
    // Not at::sum: on many threads it may add in another order.
    const A* const values = per_group.template const_data_ptr<A>();
    const double total = std::accumulate(values, values + a.groups, 0.0);
    return at::full(a.eps.sizes(), total, a.eps.options());
  }
};

// With a shortcut: norm_add_act's gradients, of arguments that kernels_add().
NormAddActGradients backward_by_kernels(const NormActArguments& a, const OptionalTensor& shortcut, bool needs_dshortcut,
                                        const BackwardArguments& backward) {
  const auto& needs = backward.needs;
  const auto x = lay_out(a.x);
  // The loops that write dshortcut write dx beside it.
  const auto dx = needs[kX] || needs_dshortcut ? new_like(x.tensor) : no_gradient(a.x);
  const auto dshortcut = needs_dshortcut ? new_like(x.tensor) : no_gradient(a.x);
  if (a.x.numel() == 0) {
    return {needs[kX] ? dx : no_gradient(a.x),       dshortcut,
            zeros_if(needs[kWeight], a.weight, a.x), zeros_if(needs[kBias], a.bias, a.x),
            zeros_if(needs[kEps], a.eps, a.x),       zeros_if(needs[kTau], a.tau, a.x),
            zeros_if(needs[kKappa], a.kappa, a.x)};
  }
  const auto dz = in_layout(backward.dz, x.layout, single_values(a.x));
  return with_kernel_type(a.x.scalar_type(), [&]<typename T>(T) {
    using A = kernels::Accumulate<T>;
    Parameters<A> parameters(a.channels());
    kernels::BackwardProblem<T> p{describe<T>(a, x, parameters)};
    at::Tensor added;
    add_shortcut(p, shortcut, added);
    // Read only: the kernels' Problem is shared with forward, which writes them.
    p.mean = a.centered ? const_cast<A*>(backward.mean.template const_data_ptr<A>()) : nullptr;
    p.rstd = const_cast<A*>(backward.rstd.template const_data_ptr<A>());
    p.dz = reinterpret_cast<const T*>(dz.const_data_ptr());
    p.dx = dx.numel() > 0 ? reinterpret_cast<T*>(dx.mutable_data_ptr()) : nullptr;
    p.dshortcut = needs_dshortcut ? reinterpret_cast<T*>(dshortcut.mutable_data_ptr()) : nullptr;
    const Partials<A> partials(x);
    p.partials = partials.memory.template mutable_data_ptr<A>();
    run_backward(p);
    return std::make_tuple(
        needs[kX] ? like_input(dx, a.x) : no_gradient(a.x), needs_dshortcut ? like_input(dshortcut, a.x) : dshortcut,
        partials.gradient(needs[kWeight], a.weight, kernels::kPartialGamma),
        partials.gradient(needs[kBias], a.bias, kernels::kPartialBeta), partials.eps_gradient(needs[kEps], a),
        partials.gradient(needs[kTau], a.tau, kernels::kPartialTau),
        partials.gradient(needs[kKappa], a.kappa, kernels::kPartialKappa));
  });
}

NormActGradients norm_act_backward(const NormActArguments& a, const BackwardArguments& backward) {
  check_norm_act(a);
  check_gradient("norm_act", "x", backward.dz, a.x);
  const auto [dx, dshortcut, dweight, dbias, deps, dtau, dkappa] =
      backward_by_kernels(a, std::nullopt, /*needs_dshortcut=*/false, backward);
  return {dx, dweight, dbias, deps, dtau, dkappa};
}

NormAddActGradients norm_add_act_backward(const NormAddActArguments& a, const AddBackwardArguments& backward) {
  a.check();
  if (!kernels_add(a)) return composed_backward(a, backward);
  const auto& [dz, mean, rstd, needs] = backward;
  check_gradient("norm_add_act", "x", dz, a.norm.x);
  return backward_by_kernels(
      a.norm, a.shortcut, needs[kAddShortcut],
      {.dz = dz,
       .mean = mean,
       .rstd = rstd,
       .needs = {needs[kAddX], needs[kAddWeight], needs[kAddBias], needs[kAddEps], needs[kAddTau], needs[kAddKappa]}});
}

at::Tensor act_forward(const at::Tensor& y_in, const OptionalTensor& tau, const OptionalTensor& kappa,
                       std::string_view activation) {
  const auto kind = check_act(y_in, tau, kappa, activation);
  const auto y = lay_out(y_in);
  auto z = new_like(y.tensor);
  if (y_in.numel() == 0) return z;
  with_kernel_type(y_in.scalar_type(), [&]<typename T>(T) {
    Parameters<kernels::Accumulate<T>> parameters(y_in.size(1));
    auto p = describe<T>(y, y_in.size(1), Norm::kIdentity, threshold_kind(kind));
    p.tau = parameters.get(tau, false);
    p.kappa = parameters.get(kappa, false);
    run_forward(p, reinterpret_cast<T*>(z.mutable_data_ptr()));
  });
  return like_input(z, y_in);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor> act_backward(const at::Tensor& dz_in, const at::Tensor& y_in,
                                                            const OptionalTensor& tau, const OptionalTensor& kappa,
                                                            std::string_view activation, std::array<bool, 3> needs) {
  const auto kind = check_act(y_in, tau, kappa, activation);
  check_gradient("act", "y", dz_in, y_in);
  const auto y = lay_out(y_in);
  const auto dy = needs[0] ? new_like(y.tensor) : no_gradient(y_in);
  if (y_in.numel() == 0) return {dy, zeros_if(needs[1], tau, y_in), zeros_if(needs[2], kappa, y_in)};
  const auto dz = in_layout(dz_in, y.layout, single_values(y_in));
  return with_kernel_type(y_in.scalar_type(), [&]<typename T>(T) {
    using A = kernels::Accumulate<T>;
    Parameters<A> parameters(y_in.size(1));
    kernels::BackwardProblem<T> p{describe<T>(y, y_in.size(1), Norm::kIdentity, threshold_kind(kind))};
    p.tau = parameters.get(tau, false);
    p.kappa = parameters.get(kappa, false);
    p.dz = reinterpret_cast<const T*>(dz.const_data_ptr());
    p.dx = needs[0] ? reinterpret_cast<T*>(dy.mutable_data_ptr()) : nullptr;
    const Partials<A> partials(y);
    p.partials = partials.memory.template mutable_data_ptr<A>();
    run_backward(p);
    return std::make_tuple(needs[0] ? like_input(dy, y_in) : dy, partials.gradient(needs[1], tau, kernels::kPartialTau),
                           partials.gradient(needs[2], kappa, kernels::kPartialKappa));
  });
}

}  // namespace
}  // namespace frn::ops

TORCH_LIBRARY_IMPL(frn, CPU, m) {
  m.impl("_norm_act_forward", frn::ops::as_operator<frn::ops::norm_act_forward>);
  m.impl("_norm_act_backward", frn::ops::as_backward_operator<frn::ops::norm_act_backward>);
  m.impl("_norm_add_act_forward", frn::ops::as_add_operator<frn::ops::norm_add_act_forward>);
  m.impl("_norm_add_act_backward", frn::ops::as_add_backward_operator<frn::ops::norm_add_act_backward>);
  m.impl("_act_forward", frn::ops::act_forward);
  m.impl("_act_backward", frn::ops::act_backward);
}
