#include "frn/train/step.h"

#include <ATen/autocast_mode.h>
#include <torch/types.h>

#include <algorithm>
#include <cmath>

#include "frn/core/error.h"
#include "frn/losses/cross_entropy.h"
#include "frn/nn/batch_norm.h"
#include "frn/nn/dropout.h"

namespace frn::train {
namespace {

// Products and convolutions in bfloat16 while it lives.
class Autocast {
 public:
  Autocast(bool on, at::DeviceType device) : on_(on), device_(device) {
    if (!on_) return;
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!on_) return;
    // The cache of narrow weights must not outlive their next change.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, false);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool on_;
  at::DeviceType device_;
};

}  // namespace

ModelOutput forward(Model& model, const at::Tensor& images, bool bfloat16) {
  const auto device = model.parameters().front().device();
  const Autocast autocast(bfloat16, device.type());
  return model.forward(images.to(device));
}

at::Tensor loss_of(const Model& model, const ModelOutput& output, const at::Tensor& truth, double label_smoothing) {
  const auto labels = truth.to(output.logits.device());
  auto loss = cross_entropy(output.logits, labels, label_smoothing);
  if (output.auxiliary.defined()) {
    loss = loss + model.row().auxiliary_weight * cross_entropy(output.auxiliary, labels, label_smoothing);
  }
  return loss;
}

Step::Step(std::shared_ptr<Model> model, const StepOptions& options) : model_(std::move(model)), options_(options) {}

bool Step::goes_on(const StepResult& result) const { return options_.always_backward || std::isfinite(result.loss); }

// The piece with device 0 comes last in its micro-batch: it changes the running statistics, and no other piece may see
// that (batch renormalisation reads them).
std::vector<Step::Piece> Step::pieces_of(int64_t batch) const {
  if (batch == 0 || batch % options_.devices != 0) {
    throw Error("train", "a batch must be a multiple of the " + std::to_string(options_.devices) + " devices but has " +
                             std::to_string(batch) + " images");
  }
  std::vector<Piece> out;
  const int64_t micro_batch = options_.batch_per_device * options_.devices;
  for (int64_t first_image = 0; first_image < batch; first_image += micro_batch) {
    const int64_t count = std::min(micro_batch, batch - first_image);
    const int64_t per_device = count / options_.devices;
    const int64_t at_once = options_.images_at_once == 0 ? count : options_.images_at_once;
    const int64_t devices_at_once = std::clamp<int64_t>(at_once / per_device, 1, options_.devices);
    const int64_t pieces = (options_.devices + devices_at_once - 1) / devices_at_once;
    for (int64_t piece = pieces; piece-- > 0;) {
      const int64_t first = piece * devices_at_once;
      const int64_t devices = std::min(devices_at_once, options_.devices - first);
      const int64_t length = devices * per_device;
      out.push_back({.begin = first_image + first * per_device,
                     .length = length,
                     .devices = devices,
                     .with_device_0 = piece == 0 && options_.holds_device_0,
                     .last_of_micro_batch = piece == 0,
                     .last = piece == 0 && first_image + count == batch,
                     .weight = static_cast<double>(length) / static_cast<double>(batch)});
    }
  }
  return out;
}

ModelOutput Step::forward_piece(const at::Tensor& images, std::span<const RandomKey> keys, const Piece& piece,
                                bool with_statistics) {
  if (piece.devices != devices_set_) set_virtual_devices(*model_, devices_set_ = piece.devices);
  const bool tracks = piece.with_device_0 && with_statistics;
  if (tracks != tracking_set_) set_tracks_statistics(*model_, tracking_set_ = tracks);
  const DropoutKeys own(
      keys.empty() ? keys : keys.subspan(static_cast<size_t>(piece.begin), static_cast<size_t>(piece.length)));
  return forward(*model_, images.narrow(0, piece.begin, piece.length), options_.bfloat16);
}

void Step::run_piece(const at::Tensor& images, const at::Tensor& labels, std::span<const RandomKey> keys,
                     const Piece& piece, StepResult& result) {
  const auto output = forward_piece(images, keys, piece, /*with_statistics=*/true);
  const auto truth = labels.narrow(0, piece.begin, piece.length);
  auto loss = loss_of(*model_, output, truth, options_.label_smoothing);
  result.loss += loss.item<double>() * piece.weight;
  if (!goes_on(result)) return;
  result.score.add(output.logits, truth);
  if (piece.weight != 1) loss = loss * piece.weight;
  if (piece.last && options_.before_last) options_.before_last();
  loss.backward();
}

StepResult Step::run(const at::Tensor& images, const at::Tensor& labels, std::span<const RandomKey> keys) {
  StepResult result;
  for (const auto& piece : pieces_of(images.size(0))) {
    if (!goes_on(result)) break;
    run_piece(images, labels, keys, piece, result);
    if (piece.last_of_micro_batch && !piece.last && options_.between_micro_batches) options_.between_micro_batches();
  }
  return result;
}

void Step::look(const at::Tensor& images, std::span<const RandomKey> keys, const std::function<void()>& begin) {
  const torch::NoGradGuard no_grad;
  for (const auto& piece : pieces_of(images.size(0))) {
    begin();
    forward_piece(images, keys, piece, /*with_statistics=*/false);
  }
}

}  // namespace frn::train
