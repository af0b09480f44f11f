#include "frn/train/step.h"

#include <ATen/autocast_mode.h>

#include <algorithm>
#include <cmath>

#include "frn/core/error.h"
#include "frn/losses/cross_entropy.h"
#include "frn/nn/batch_norm.h"

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

void Step::run_piece(const at::Tensor& images, const at::Tensor& labels, const Piece& piece, StepResult& result) {
  if (piece.devices != devices_set_) set_virtual_devices(*model_, devices_set_ = piece.devices);
  if (piece.with_device_0 != tracking_set_) set_tracks_statistics(*model_, tracking_set_ = piece.with_device_0);
  const auto output = forward(*model_, images, options_.bfloat16);
  auto loss = loss_of(*model_, output, labels, options_.label_smoothing);
  result.loss += loss.item<double>() * piece.weight;
  if (!goes_on(result)) return;
  result.score.add(output.logits, labels);
  if (piece.weight != 1) loss = loss * piece.weight;
  if (piece.last && options_.before_last) options_.before_last();
  loss.backward();
}

// Whole devices at a time. The piece with device 0 comes last: it changes the running statistics, and no other piece
// may see that (batch renormalisation reads them).
void Step::run_micro_batch(const at::Tensor& images, const at::Tensor& labels, int64_t batch, bool last,
                           StepResult& result) {
  const int64_t count = images.size(0);
  const int64_t per_device = count / options_.devices;
  const int64_t at_once = options_.images_at_once == 0 ? count : options_.images_at_once;
  const int64_t devices_at_once = std::clamp<int64_t>(at_once / per_device, 1, options_.devices);
  const int64_t pieces = (options_.devices + devices_at_once - 1) / devices_at_once;
  for (int64_t piece = pieces; piece-- > 0 && goes_on(result);) {
    const int64_t first = piece * devices_at_once;
    const int64_t devices = std::min(devices_at_once, options_.devices - first);
    const int64_t begin = first * per_device;
    const int64_t length = devices * per_device;
    run_piece(images.narrow(0, begin, length), labels.narrow(0, begin, length),
              {.devices = devices,
               .with_device_0 = piece == 0 && options_.holds_device_0,
               .last = last && piece == 0,
               .weight = static_cast<double>(length) / static_cast<double>(batch)},
              result);
  }
}

StepResult Step::run(const at::Tensor& images, const at::Tensor& labels) {
  const int64_t batch = images.size(0);
  if (batch == 0 || batch % options_.devices != 0) {
    throw Error("train", "a batch must be a multiple of the " + std::to_string(options_.devices) + " devices but has " +
                             std::to_string(batch) + " images");
  }
  StepResult result;
  const int64_t micro_batch = options_.batch_per_device * options_.devices;
  for (int64_t begin = 0; begin < batch && goes_on(result); begin += micro_batch) {
    const int64_t length = std::min(micro_batch, batch - begin);
    run_micro_batch(images.narrow(0, begin, length), labels.narrow(0, begin, length), batch,
                    /*last=*/begin + length == batch, result);
  }
  return result;
}

}  // namespace frn::train
