// norm_act and the convolutions that read its result z, as one step of the graph. A convolution needs z for its
// weights' gradient, and keeps it: as much memory as x, which norm_act keeps. Here x alone is kept, and backward
// computes z again just before it is needed, by the same kernel on the same numbers, so that every result has the same
// bits.
#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

#include <algorithm>

#include "frn/ops/composite.h"
#include "frn/ops/internal.h"
#include "frn/ops/readers.h"

namespace frn::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::Variable;
using torch::autograd::variable_list;

// What backward cannot keep among the saved tensors.
struct Kept : torch::CustomClassHolder {
  std::string activation;
  int64_t groups = 0;
  bool centered = false;
  std::vector<Geometry> geometries;
};

struct NormActConvs : torch::autograd::Function<NormActConvs> {
  static constexpr size_t kSettings = 4;  // arguments that are no tensors: groups, centered, activation, geometries

  static variable_list forward(AutogradContext* context, const Variable& x, const OptionalTensor& weight,
                               const OptionalTensor& bias, const Variable& eps, const OptionalTensor& tau,
                               const OptionalTensor& kappa, int64_t groups, bool centered, std::string_view activation,
                               at::TensorList tensors, const std::vector<Geometry>& geometries) {
    at::AutoDispatchBelowADInplaceOrView below;
    const auto [z, mean, rstd] =
        call_norm_act_forward({x, weight, bias, eps, tau, kappa, groups, centered, activation});
    const auto value = [](const OptionalTensor& t) { return t ? *t : at::Tensor(); };
    variable_list saved{x, value(weight), value(bias), eps, value(tau), value(kappa), mean, rstd};
    saved.insert(saved.end(), tensors.begin(), tensors.end());
    context->save_for_backward(saved);
    auto kept = c10::make_intrusive<Kept>();
    kept->activation = std::string(activation);
    kept->groups = groups;
    kept->centered = centered;
    kept->geometries = geometries;
    context->saved_data["kept"] = at::IValue::make_capsule(std::move(kept));
    return convolve(z, tensors, geometries);
  }

  static variable_list backward(AutogradContext* context, variable_list grad_outputs) {
    const auto capsule = context->saved_data["kept"].toCapsule();
    const auto& kept = static_cast<const Kept&>(*capsule);
    const auto saved = context->get_saved_variables();
    constexpr size_t kStatistics = 2;
    const variable_list tensors(saved.begin() + kNormActInputs + kStatistics, saved.end());

    // PyTorch numbers only the inputs that were given.
    size_t given = 0;
    Needs needs{};
    for (size_t i = 0; i < kNormActInputs; ++i) {
      if (saved[i].defined()) needs[i] = context->needs_input_grad(given++);
    }
    std::vector<bool> reader_needs;
    for (size_t i = 0; i < tensors.size(); ++i) reader_needs.push_back(context->needs_input_grad(given++));
    const bool needs_dz = std::find(needs.begin(), needs.end(), true) != needs.end();

    const auto if_defined = [](const Variable& v) { return v.defined() ? OptionalTensor(v) : std::nullopt; };
    const NormActArguments arguments{saved[kX],
                                     if_defined(saved[kWeight]),
                                     if_defined(saved[kBias]),
                                     saved[kEps],
                                     if_defined(saved[kTau]),
                                     if_defined(saved[kKappa]),
                                     kept.groups,
                                     kept.centered,
                                     kept.activation};
    const bool with_graph = at::GradMode::is_enabled();  // a gradient of the gradient is asked for
    auto z = saved[kX];                                  // where no filter learns, only its shape is looked at
    if (with_graph) {
      z = call_norm_act(arguments);
    } else if (filters_need(kept.geometries, reader_needs)) {
      z = std::get<0>(call_norm_act_forward(arguments));
    }
    const auto of_readers = convolve_backward(grad_outputs, z, tensors, kept.geometries, needs_dz, reader_needs);
    z.reset();  // its memory, before the norm's gradient takes some

    variable_list out(kNormActInputs + kSettings + tensors.size());
    std::copy(of_readers.tensors.begin(), of_readers.tensors.end(), out.begin() + kNormActInputs + kSettings - 1);
    if (!of_readers.dz.defined()) return out;
    Gradients gradients;
    if (with_graph) {
      gradients = composite_backward(arguments, of_readers.dz, needs);
    } else {
      const auto [dx, dweight, dbias, deps, dtau, dkappa] = call_norm_act_backward(
          arguments,
          {.dz = of_readers.dz, .mean = saved[kNormActInputs], .rstd = saved[kNormActInputs + 1], .needs = needs});
      gradients = {dx, dweight, dbias, deps, dtau, dkappa};
    }
    for (size_t i = 0; i < kNormActInputs; ++i) {
      if (needs[i]) out[i] = gradients[i];
    }
    return out;
  }
};

using Readers = std::vector<Convolution>;

void check_readers(const NormActArguments& a, const Readers& readers) {
  TORCH_CHECK(!readers.empty(), "[norm_act_conv] at least one convolution must read the result but there is none");
  const auto dimensions = a.x.dim() - 2;
  for (const auto& one : readers) {
    TORCH_CHECK(
        dimensions >= 1 && one.filters.dim() == a.x.dim(),
        "[norm_act_conv] filters must have the rank of x, which is [N, C, *] with at least 3 dimensions, but they "
        "have shape ",
        one.filters.sizes(), " and x ", a.x.sizes());
    for (const auto* numbers : {&one.stride, &one.padding, &one.dilation}) {
      TORCH_CHECK(static_cast<int64_t>(numbers->size()) == dimensions,
                  "[norm_act_conv] stride, padding and dilation must have a number for each of the ", dimensions,
                  " dimensions of a map but one has ", numbers->size());
    }
  }
}

// The separate operators, where nothing is kept anyway or what keeps it is not ours to say.
variable_list one_after_the_other(const at::Tensor& z, const Readers& readers) {
  const auto [tensors, geometries] = flat(readers);
  return convolve(z, tensors, geometries);
}

// Above autograd, below autocast.
variable_list with_graph(const NormActArguments& a, const Readers& readers) {
  check_readers(a, readers);
  if (in_function_transform()) {
    check_norm_act(a);
    return one_after_the_other(composite_result(a), readers);
  }
  if (!at::GradMode::is_enabled()) return one_after_the_other(call_norm_act(a), readers);
  const auto [tensors, geometries] = flat(readers);
  return NormActConvs::apply(a.x, a.weight, a.bias, a.eps, a.tau, a.kappa, a.groups, a.centered, a.activation,
                             at::TensorList(tensors), geometries);
}

// As autocast does for the two operators: x keeps its type, filters take the narrow one.
variable_list as_autocast(NormActArguments a, Readers readers) {
  const auto device = a.x.device().type();
  const c10::impl::ExcludeDispatchKeyGuard below(at::autocast::get_autocast_dispatch_key_from_device_type(device));
  const auto type = at::autocast::get_autocast_dtype(device);
  for (auto* parameter : {&a.weight, &a.bias, &a.tau, &a.kappa}) {
    if (*parameter && (*parameter)->scalar_type() != a.x.scalar_type()) *parameter = (*parameter)->to(at::kFloat);
  }
  for (auto& one : readers) {
    one.filters = at::autocast::cached_cast(type, one.filters, device);
    if (one.bias) one.bias = at::autocast::cached_cast(type, *one.bias, device);
  }
  return with_graph(a, readers);
}

// The operator's face: one reader.
using OperatorSignature = at::Tensor(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                                     const at::Tensor& eps, const OptionalTensor& tau, const OptionalTensor& kappa,
                                     int64_t groups, bool centered, std::string_view activation,
                                     const at::Tensor& filters, const OptionalTensor& conv_bias, at::IntArrayRef stride,
                                     at::IntArrayRef padding, at::IntArrayRef dilation, int64_t conv_groups);

template <auto kFunction>
at::Tensor as_conv_operator(const at::Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias,
                            const at::Tensor& eps, const OptionalTensor& tau, const OptionalTensor& kappa,
                            int64_t groups, bool centered, std::string_view activation, const at::Tensor& filters,
                            const OptionalTensor& conv_bias, at::IntArrayRef stride, at::IntArrayRef padding,
                            at::IntArrayRef dilation, int64_t conv_groups) {
  return kFunction({x, weight, bias, eps, tau, kappa, groups, centered, activation},
                   {{filters, conv_bias, stride.vec(), padding.vec(), dilation.vec(), conv_groups}})[0];
}

variable_list plain(const NormActArguments& a, const Readers& readers) {
  check_readers(a, readers);
  return one_after_the_other(std::get<0>(call_norm_act_forward(a)), readers);
}

}  // namespace
}  // namespace frn::ops

namespace frn {

std::vector<at::Tensor> norm_act_convs(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                                       const std::optional<at::Tensor>& bias, const at::Tensor& eps,
                                       const std::optional<at::Tensor>& tau, const std::optional<at::Tensor>& kappa,
                                       int64_t groups, bool centered, std::string_view activation,
                                       const std::vector<Convolution>& readers) {
  const ops::NormActArguments arguments{x, weight, bias, eps, tau, kappa, groups, centered, activation};
  return at::autocast::is_autocast_enabled(x.device().type()) ? ops::as_autocast(arguments, readers)
                                                              : ops::with_graph(arguments, readers);
}

at::Tensor norm_act_conv(const at::Tensor& x, const std::optional<at::Tensor>& weight,
                         const std::optional<at::Tensor>& bias, const at::Tensor& eps,
                         const std::optional<at::Tensor>& tau, const std::optional<at::Tensor>& kappa, int64_t groups,
                         bool centered, std::string_view activation, const Convolution& reader) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("frn::norm_act_conv", "").typed<ops::OperatorSignature>();
  return op.call(x, weight, bias, eps, tau, kappa, groups, centered, activation, reader.filters, reader.bias,
                 reader.stride, reader.padding, reader.dilation, reader.groups);
}

}  // namespace frn

TORCH_LIBRARY_IMPL(frn, AutocastCPU, m) { m.impl("norm_act_conv", frn::ops::as_conv_operator<frn::ops::as_autocast>); }
TORCH_LIBRARY_IMPL(frn, AutocastCUDA, m) { m.impl("norm_act_conv", frn::ops::as_conv_operator<frn::ops::as_autocast>); }
TORCH_LIBRARY_IMPL(frn, Autograd, m) { m.impl("norm_act_conv", frn::ops::as_conv_operator<frn::ops::with_graph>); }
TORCH_LIBRARY_IMPL(frn, CompositeExplicitAutograd, m) {
  m.impl("norm_act_conv", frn::ops::as_conv_operator<frn::ops::plain>);
}
