#include "frn/ops/composite.h"

#include <ATen/ATen.h>
#include <torch/library.h>

#include "frn/ops/internal.h"
#include "frn/ops/last_implementation.h"
#include "frn/ops/norm_add_act.h"

namespace frn::ops {
namespace {

// [C] as [1, C, 1, ...], in the accumulation type.
at::Tensor per_channel(const at::Tensor& parameter, const at::Tensor& like) {
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[1] = -1;
  return parameter.to(accumulate_type(like.scalar_type())).reshape(shape);
}

// Means over each (sample, group), with the shape of the statistics [N, groups, 1].
at::Tensor group_mean(const at::Tensor& values, int64_t groups) {
  const int64_t n = values.size(0);
  const int64_t size = n == 0 ? 1 : std::max<int64_t>(1, values.numel() / (n * groups));
  if (values.numel() == 0) return at::zeros({n, groups, 1}, values.options());
  return values.reshape({n, groups, size}).mean(-1, /*keepdim=*/true);
}

// [N, groups, 1] spread over the channels of its groups: [N, C, 1, ...].
at::Tensor spread(const at::Tensor& statistics, const at::Tensor& like) {
  const int64_t groups = statistics.size(1);
  std::vector<int64_t> shape(static_cast<size_t>(like.dim()), 1);
  shape[0] = like.size(0);
  shape[1] = like.size(1);
  return statistics.expand({like.size(0), groups, like.size(1) / groups}).reshape(shape);
}

at::Tensor sum_to_channels(const at::Tensor& values) {
  std::vector<int64_t> dims{0};
  for (int64_t i = 2; i < values.dim(); ++i) dims.push_back(i);
  return values.sum(dims);
}

struct Normalised {
  at::Tensor mean;  // [N, groups, 1]
  at::Tensor rstd;  // [N, groups, 1]
  at::Tensor xhat;
  at::Tensor y;
};

Normalised normalise(const NormActArguments& a) {
  Normalised n;
  const auto x = a.x.to(accumulate_type(a.x.scalar_type()));
  auto centred = x;
  if (a.centered) {
    n.mean = group_mean(x, a.groups);
    centred = x - spread(n.mean, x);
  }
  const auto nu2 = group_mean(centred * centred, a.groups);
  const auto eps = a.eps.to(x.scalar_type());
  n.rstd = (nu2 + (a.eps_per_channel() ? eps.reshape({1, -1, 1}) : eps.reshape({1, 1, 1}))).rsqrt();
  n.xhat = centred * spread(n.rstd, x);
  n.y = n.xhat;
  if (a.weight) n.y = n.y * per_channel(*a.weight, x);
  if (a.bias) n.y = n.y + per_channel(*a.bias, x);
  return n;
}

// kappa*y + tau, or undefined for the identity.
at::Tensor threshold_of(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                        Activation activation) {
  if (activation == Activation::kNone) return {};
  auto t = kappa ? per_channel(*kappa, y) * y : at::zeros_like(y);
  return tau ? t + per_channel(*tau, y) : t;
}

at::Tensor activate(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                    Activation activation) {
  const auto t = threshold_of(y, tau, kappa, activation);
  return t.defined() ? at::where(y < t, t, y) : y;
}

// Where y is below its threshold the gradient goes to tau and kappa, and kappa's share of it to y.
struct ActivationGradients {
  at::Tensor dy;
  at::Tensor blocked_dz;
};
ActivationGradients activation_gradients(const at::Tensor& dz, const at::Tensor& y, const OptionalTensor& tau,
                                         const OptionalTensor& kappa, Activation activation) {
  const auto t = threshold_of(y, tau, kappa, activation);
  if (!t.defined()) return {dz, at::zeros_like(dz)};
  const auto blocked = y < t;
  const auto zero = at::zeros_like(dz);
  return {at::where(blocked, kappa ? per_channel(*kappa, y) * dz : zero, dz), at::where(blocked, dz, zero)};
}

}  // namespace

ForwardResult composite_forward(const NormActArguments& a) {
  const auto n = normalise(a);
  const auto z = activate(n.y, a.tau, a.kappa, a.kind()).to(a.x.scalar_type());
  // As empty_like: dense inputs keep their strides.
  const auto result = at::empty_like(a.x).copy_(z);
  return {result, a.centered ? n.mean.squeeze(-1) : at::empty({0}, n.rstd.options()), n.rstd.squeeze(-1)};
}

at::Tensor composite_result(const NormActArguments& a) {
  return activate(normalise(a).y, a.tau, a.kappa, a.kind()).to(a.x.scalar_type());
}

Gradients composite_backward(const NormActArguments& a, const at::Tensor& dz_in, const Needs& needs) {
  const auto n = normalise(a);
  const auto dz = dz_in.to(n.y.scalar_type());
  const auto [dy, blocked_dz] = activation_gradients(dz, n.y, a.tau, a.kappa, a.kind());
  const auto ghat = a.weight ? dy * per_channel(*a.weight, dy) : dy;
  const auto projection = group_mean(ghat * n.xhat, a.groups);
  Gradients out;
  if (needs[kX]) {
    auto dx = ghat - n.xhat * spread(projection, dy);
    if (a.centered) dx = dx - spread(group_mean(ghat, a.groups), dy);
    out[kX] = (dx * spread(n.rstd, dy)).to(a.x.scalar_type());
  }
  if (needs[kWeight] && a.weight) out[kWeight] = sum_to_channels(dy * n.xhat).to(a.weight->scalar_type());
  if (needs[kBias] && a.bias) out[kBias] = sum_to_channels(dy).to(a.bias->scalar_type());
  if (needs[kEps]) {
    const double size =
        a.x.numel() == 0 ? 0.0 : static_cast<double>(a.x.numel()) / static_cast<double>(a.x.size(0) * a.groups);
    const auto per_group = n.rstd * n.rstd * projection * (-0.5 * size);
    out[kEps] =
        (a.eps_per_channel() ? per_group.sum({0, 2}) : per_group.sum().reshape(a.eps.sizes())).to(a.eps.scalar_type());
  }
  if (needs[kTau] && a.tau) out[kTau] = sum_to_channels(blocked_dz).to(a.tau->scalar_type());
  if (needs[kKappa] && a.kappa) out[kKappa] = sum_to_channels(blocked_dz * n.y).to(a.kappa->scalar_type());
  return out;
}

namespace {
at::Tensor wide_sum(const NormAddActArguments& a) {
  return normalise(a.norm).y + a.shortcut.to(accumulate_type(a.shortcut.scalar_type()));
}
}  // namespace

at::Tensor composite_add_result(const NormAddActArguments& a) {
  return activate(wide_sum(a), a.norm.tau, a.norm.kappa, a.norm.kind()).to(a.sum_type());
}

AddGradients composite_add_backward(const NormAddActArguments& a, const at::Tensor& dz, const AddNeeds& needs) {
  const auto sum = wide_sum(a);
  const auto& tau = a.norm.tau;
  const auto& kappa = a.norm.kappa;
  const auto [dsum, blocked_dz] = activation_gradients(dz.to(sum.scalar_type()), sum, tau, kappa, a.norm.kind());
  auto of_norm = composite_backward(a.norm_alone(), dsum,
                                    {needs[kAddX], needs[kAddWeight], needs[kAddBias], needs[kAddEps], false, false});
  AddGradients out{of_norm[kX], {}, of_norm[kWeight], of_norm[kBias], of_norm[kEps], {}, {}};
  if (needs[kAddShortcut]) out[kAddShortcut] = dsum.to(a.shortcut.scalar_type());
  if (needs[kAddTau] && tau) out[kAddTau] = sum_to_channels(blocked_dz).to(tau->scalar_type());
  if (needs[kAddKappa] && kappa) out[kAddKappa] = sum_to_channels(blocked_dz * sum).to(kappa->scalar_type());
  return out;
}

at::Tensor composite_act(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                         Activation activation) {
  return at::empty_like(y).copy_(composite_act_result(y, tau, kappa, activation));
}

at::Tensor composite_act_result(const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa,
                                Activation activation) {
  const auto wide = y.to(accumulate_type(y.scalar_type()));
  const auto z = activate(wide, tau, kappa, activation).to(y.scalar_type());
  return z.is_same(y) ? z.clone() : z;  // as the kernels: what writes into z leaves y alone
}

std::array<at::Tensor, 3> composite_act_backward(const at::Tensor& dz_in, const at::Tensor& y_in,
                                                 const OptionalTensor& tau, const OptionalTensor& kappa,
                                                 Activation activation, std::array<bool, 3> needs) {
  const auto y = y_in.to(accumulate_type(y_in.scalar_type()));
  const auto dz = dz_in.to(y.scalar_type());
  const auto [dy, blocked_dz] = activation_gradients(dz, y, tau, kappa, activation);
  std::array<at::Tensor, 3> out;
  if (needs[0]) out[0] = dy.to(y_in.scalar_type());
  if (needs[1] && tau) out[1] = sum_to_channels(blocked_dz).to(tau->scalar_type());
  if (needs[2] && kappa) out[2] = sum_to_channels(blocked_dz * y).to(kappa->scalar_type());
  return out;
}

namespace {

NormActResult forward_by_composite(const NormActArguments& arguments) {
  check_norm_act(arguments);
  auto r = composite_forward(arguments);
  set_last_implementation("composite");
  return {r.z, r.mean, r.rstd};
}

NormActGradients backward_by_composite(const NormActArguments& arguments, const BackwardArguments& backward) {
  check_norm_act(arguments);
  const auto g = composite_backward(arguments, backward.dz, backward.needs);
  const auto get = [&](int i) { return g[i].defined() ? g[i] : at::empty({0}, arguments.x.options()); };
  return {get(kX), get(kWeight), get(kBias), get(kEps), get(kTau), get(kKappa)};
}

}  // namespace
}  // namespace frn::ops

// Devices without kernels of their own (CUDA in builds without nvcc, MPS, XPU) run the composite form.
TORCH_LIBRARY_IMPL(frn, CompositeExplicitAutograd, m) {
  using namespace frn::ops;
  m.impl("_norm_act_forward", as_operator<forward_by_composite>);
  m.impl("_norm_act_backward", as_backward_operator<backward_by_composite>);
  m.impl("_act_forward",
         [](const at::Tensor& y, const OptionalTensor& tau, const OptionalTensor& kappa, std::string_view activation) {
           set_last_implementation("composite");
           return composite_act(y, tau, kappa, check_act(y, tau, kappa, activation));
         });
  m.impl("_act_backward", [](const at::Tensor& dz, const at::Tensor& y, const OptionalTensor& tau,
                             const OptionalTensor& kappa, std::string_view activation, std::array<bool, 3> needs) {
    const auto g = composite_act_backward(dz, y, tau, kappa, check_act(y, tau, kappa, activation), needs);
    const auto get = [&](int i) { return g[i].defined() ? g[i] : at::empty({0}, y.options()); };
    return std::make_tuple(get(0), get(1), get(2));
  });
}
