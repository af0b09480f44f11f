#include "frn/nn/detail/compute_again.h"

#include <ATen/autocast_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <utility>

#include "frn/ops/readers.h"

namespace frn {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct Kept : torch::CustomClassHolder {
  GiveZ give_z;
  std::vector<ops::Geometry> geometries;
  size_t inputs = 0;             // x and the parameters that are defined
  std::vector<bool> parameters;  // which of them are
};

struct ConvolveComputingAgain : torch::autograd::Function<ConvolveComputingAgain> {
  // `tensors`: x, the parameters that are defined, the readers' tensors.
  static variable_list forward(AutogradContext* context, at::TensorList tensors, const at::Tensor& z,
                               const c10::intrusive_ptr<Kept>& kept) {
    at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward(tensors.vec());
    context->saved_data["kept"] = at::IValue::make_capsule(kept);
    return ops::convolve(z, tensors.slice(kept->inputs), kept->geometries);
  }

  static variable_list backward(AutogradContext* context, variable_list douts) {
    const auto capsule = context->saved_data["kept"].toCapsule();
    const auto& kept = static_cast<const Kept&>(*capsule);
    const auto saved = context->get_saved_variables();
    std::vector<bool> needs;
    for (size_t i = 0; i < saved.size(); ++i) needs.push_back(context->needs_input_grad(i));
    const auto first_reader = needs.begin() + static_cast<std::ptrdiff_t>(kept.inputs);
    const std::vector<bool> reader_needs(first_reader, needs.end());
    const bool needs_dz = std::find(needs.begin(), first_reader, true) != first_reader;
    const bool create_graph = at::GradMode::is_enabled();

    // Its own graph of the norm alone, or a part of the caller's where a gradient of the gradient is asked for.
    variable_list inputs;
    for (size_t i = 0; i < kept.inputs; ++i) {
      inputs.push_back(create_graph ? saved[i] : saved[i].detach().requires_grad_(needs[i]));
    }
    at::Tensor z;
    {
      const torch::AutoGradMode with_graph(needs_dz);
      size_t next = 1;
      std::vector<at::Tensor> parameters;
      for (const bool defined : kept.parameters) parameters.push_back(defined ? inputs[next++] : at::Tensor());
      z = kept.give_z(inputs[0], parameters);
    }
    const variable_list tensors(saved.begin() + static_cast<std::ptrdiff_t>(kept.inputs), saved.end());
    const auto of_readers =
        ops::convolve_backward(douts, create_graph ? z : z.detach(), tensors, kept.geometries, needs_dz, reader_needs);

    variable_list out(saved.size() + 2);  // z and kept get none
    std::copy(of_readers.tensors.begin(), of_readers.tensors.end(),
              out.begin() + static_cast<std::ptrdiff_t>(kept.inputs));
    if (!of_readers.dz.defined()) return out;
    variable_list wanted;
    for (size_t i = 0; i < kept.inputs; ++i) {
      if (needs[i]) wanted.push_back(inputs[i]);
    }
    const auto gradients =
        torch::autograd::grad({z}, wanted, {of_readers.dz}, create_graph, create_graph, /*allow_unused=*/true);
    for (size_t i = 0, next = 0; i < kept.inputs; ++i) {
      if (needs[i]) out[i] = gradients[next++];
    }
    return out;
  }
};

}  // namespace

std::vector<at::Tensor> convolve_computing_again(const at::Tensor& z, const at::Tensor& x,
                                                 const std::vector<at::Tensor>& parameters, GiveZ give_z,
                                                 const std::vector<Convolution>& readers) {
  auto kept = c10::make_intrusive<Kept>();
  variable_list tensors{x};
  for (const auto& parameter : parameters) {
    kept->parameters.push_back(parameter.defined());
    if (parameter.defined()) tensors.push_back(parameter);
  }
  kept->inputs = tensors.size();
  kept->give_z = std::move(give_z);
  auto [of_readers, geometries] = ops::flat(readers);
  kept->geometries = std::move(geometries);
  const auto device = x.device().type();
  const bool narrow = at::autocast::is_autocast_enabled(device);
  for (auto& tensor : of_readers) {
    if (narrow) tensor = at::autocast::cached_cast(at::autocast::get_autocast_dtype(device), tensor, device);
    tensors.push_back(tensor);
  }
  return ConvolveComputingAgain::apply(at::TensorList(tensors), z.detach(), kept);
}

}  // namespace frn
