#include "frn/train/layer_report.h"

#include <ATen/ops/isfinite.h>
#include <torch/types.h>

#include <map>

#include "frn/nn/batch_norm.h"
#include "frn/nn/layer_watch.h"
#include "frn/nn/norm_act.h"
#include "frn/train/step.h"

namespace frn::train {
namespace {

using Names = std::map<const torch::nn::Module*, std::string>;

Names names_of(const Model& model) {
  Names names;
  for (const auto& item : model.named_modules()) names.emplace(item.value().get(), item.key());
  return names;
}

// z is max(y, tau): clipped units are exactly tau. With a slope (PReLU, Affine-TLU) z does not tell.
std::optional<double> clipped_share(const NormActImpl& layer, const at::Tensor& z) {
  const auto& activation = layer.spec().activation();
  if (activation.name == "none" || activation.uses_kappa) return std::nullopt;
  if (!activation.uses_tau) return (z <= 0).to(at::kFloat).mean().item<double>();
  std::vector<int64_t> shape(static_cast<size_t>(z.dim()), 1);
  shape[1] = -1;
  return (z <= layer.tau.to(z.scalar_type()).view(shape)).to(at::kFloat).mean().item<double>();
}

// Runs the model as training does, but leaves no trace in running statistics.
void run_unseen(Model& model, const at::Tensor& images, bool bfloat16) {
  const torch::NoGradGuard no_grad;
  set_tracks_statistics(model, false);
  try {
    forward(model, images, bfloat16);
  } catch (...) {
    set_tracks_statistics(model, true);
    throw;
  }
  set_tracks_statistics(model, true);
}

}  // namespace

std::vector<LayerState> layer_states(Model& model, const at::Tensor& images, bool bfloat16) {
  const auto names = names_of(model);
  std::vector<LayerState> states;
  const LayerWatch watch([&](const torch::nn::Module& layer, const at::Tensor& output) {
    const auto* norm = dynamic_cast<const NormActImpl*>(&layer);
    if (norm == nullptr) return;
    const double scale = output.to(at::kFloat).square().mean().sqrt().item<double>();
    states.push_back({names.at(&layer), scale, clipped_share(*norm, output)});
  });
  run_unseen(model, images, bfloat16);
  return states;
}

std::optional<std::string> first_bad_layer(Model& model, const at::Tensor& images, bool bfloat16) {
  const auto names = names_of(model);
  std::optional<std::string> bad;
  const LayerWatch watch([&](const torch::nn::Module& layer, const at::Tensor& output) {
    if (!bad && !at::isfinite(output).all().item<bool>()) bad = names.at(&layer);
  });
  run_unseen(model, images, bfloat16);
  return bad;
}

}  // namespace frn::train
