#include "frn/train/layer_report.h"

#include <ATen/ops/isfinite.h>
#include <torch/types.h>

#include <cmath>
#include <limits>
#include <map>

#include "frn/nn/layer_watch.h"
#include "frn/nn/norm_act.h"

namespace frn::train {
namespace {

using Names = std::map<const torch::nn::Module*, std::string>;

Names names_of(const torch::nn::Module& model) {
  Names names;
  for (const auto& item : model.named_modules()) names.emplace(item.value().get(), item.key());
  return names;
}

// z is max(y, threshold): clipped units are exactly the threshold. With a slope (PReLU, Affine-TLU) z does not tell.
std::optional<double> clipped_share(const NormActImpl& layer, const at::Tensor& z) {
  const auto& activation = layer.spec().activation();
  if (activation.name == "none" || activation.uses_kappa) return std::nullopt;
  const auto threshold = layer.threshold();
  if (!threshold.defined()) return (z <= 0).to(at::kFloat).mean().item<double>();
  std::vector<int64_t> shape(static_cast<size_t>(z.dim()), 1);
  shape[1] = -1;
  return (z <= threshold.to(z.scalar_type()).view(shape)).to(at::kFloat).mean().item<double>();
}

// What the pieces of a batch add up to.
struct Sums {
  double squares = 0;
  double clipped = 0;
  double units = 0;
  bool tells_clipped = false;
};

}  // namespace

std::vector<LayerState> layer_states(Step& step, const at::Tensor& images, std::span<const RandomKey> keys) {
  const auto names = names_of(step.network().module());
  std::vector<const torch::nn::Module*> order;
  std::map<const torch::nn::Module*, Sums> sums;
  const LayerWatch watch([&](const torch::nn::Module& layer, const at::Tensor& output) {
    const auto* norm = dynamic_cast<const NormActImpl*>(&layer);
    if (norm == nullptr) return;
    if (!sums.contains(&layer)) order.push_back(&layer);
    auto& sum = sums[&layer];
    const auto units = static_cast<double>(output.numel());
    const auto clipped = clipped_share(*norm, output);
    sum.squares += output.to(at::kFloat).square().mean().item<double>() * units;
    sum.clipped += clipped.value_or(0) * units;
    sum.tells_clipped = clipped.has_value();
    sum.units += units;
  });
  step.look(images, keys, [] {});
  std::vector<LayerState> states;
  for (const auto* layer : order) {
    const auto& sum = sums[layer];
    states.push_back({names.at(layer), std::sqrt(sum.squares / sum.units),
                      sum.tells_clipped ? std::optional(sum.clipped / sum.units) : std::nullopt});
  }
  return states;
}

std::optional<std::string> first_bad_layer(Step& step, const at::Tensor& images, std::span<const RandomKey> keys) {
  const auto names = names_of(step.network().module());
  std::optional<std::string> bad;
  size_t place = 0;  // of a layer in its forward pass
  size_t first = std::numeric_limits<size_t>::max();
  const LayerWatch watch([&](const torch::nn::Module& layer, const at::Tensor& output) {
    if (++place >= first || at::isfinite(output).all().item<bool>()) return;
    first = place;
    bad = names.at(&layer);
  });
  step.look(images, keys, [&] { place = 0; });
  return bad;
}

}  // namespace frn::train
