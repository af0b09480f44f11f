#include "frn/train/step.h"

#include <torch/types.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "frn/core/error.h"
#include "frn/nn/batch_norm.h"
#include "frn/nn/dropout.h"
#include "frn/train/own_random_numbers.h"

namespace frn::train {
namespace {

constexpr uint64_t kTorchKey = 0x746f726368;  // apart from what dropout draws from the same key

at::Tensor sum_of(const std::vector<NamedLoss>& losses) {
  if (losses.empty()) throw Error("train", "a task must give at least one loss but gave none");
  auto sum = losses.front().value;
  for (size_t i = 1; i < losses.size(); ++i) sum = sum + losses[i].value;
  return sum;
}

void add_parts(const std::vector<NamedLoss>& losses, double share, NamedValues& to) {
  if (losses.size() < 2) return;
  if (to.empty()) {
    for (const auto& loss : losses) to.push_back({loss.name, 0});
  }
  for (size_t i = 0; i < losses.size(); ++i) to.at(i).value += losses[i].value.item<double>() * share;
}

}  // namespace

Step::Step(Network network, std::shared_ptr<const Task> task, StepOptions options)
    : network_(std::move(network)), task_(std::move(task)), options_(std::move(options)) {}

bool Step::goes_on(const StepResult& result) const { return options_.always_backward || std::isfinite(result.loss); }

// The piece with device 0 comes last in its micro-batch: it changes the running statistics, and no other piece may see
// that (batch renormalisation reads them).
std::vector<Step::Piece> Step::pieces_of(int64_t batch) const {
  if (batch == 0 || batch % options_.devices != 0) {
    throw Error("train", "a batch must be a multiple of the " + std::to_string(options_.devices) + " devices but has " +
                             std::to_string(batch) + " samples");
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
                     .last = piece == 0 && first_image + count == batch});
    }
  }
  return out;
}

Outputs Step::forward_piece(const at::Tensor& images, std::span<const RandomKey> keys, const Piece& piece,
                            bool with_statistics) {
  auto& module = network_.module();
  if (piece.devices != devices_set_) set_virtual_devices(module, devices_set_ = piece.devices);
  const bool tracks = piece.with_device_0 && with_statistics;
  if (tracks != tracking_set_) set_tracks_statistics(module, tracking_set_ = tracks);
  const auto own =
      keys.empty() ? keys : keys.subspan(static_cast<size_t>(piece.begin), static_cast<size_t>(piece.length));
  const DropoutKeys dropout(own);
  std::optional<OwnRandomNumbers> random;
  if (!own.empty()) random.emplace(own.front().with(kTorchKey).value(), network_.device());
  return network_.forward(images.narrow(0, piece.begin, piece.length), options_.bfloat16);
}

void Step::run_piece(const data::Batch& batch, std::span<const RandomKey> keys, const Piece& piece, double whole_weight,
                     Score& score, StepResult& result) {
  const auto outputs = forward_piece(batch.images, keys, piece, /*with_statistics=*/true);
  const auto part = batch.part(piece.begin, piece.length);
  const auto losses = task_->losses(outputs, part, {.training = true, .devices = piece.devices});
  auto loss = sum_of(losses);
  const double share = whole_weight > 0 ? task_->weight(part) / whole_weight : 0;
  result.loss += loss.item<double>() * share;
  if (!goes_on(result)) return;
  add_parts(losses, share, result.losses);
  score.add(outputs, part);
  if (share != 1) loss = loss * share;
  if (piece.last && options_.before_last) options_.before_last();
  loss.backward();
}

StepResult Step::run(const data::Batch& batch, std::span<const RandomKey> keys) {
  StepResult result;
  const auto pieces = pieces_of(batch.size());
  const auto score = task_->make_training_score();
  result.weight = task_->weight(batch);
  result.samples = batch.size();
  const double whole = options_.mean_weight ? options_.mean_weight(result.weight) : result.weight;
  for (const auto& piece : pieces) {
    if (!goes_on(result)) break;
    run_piece(batch, keys, piece, whole, *score, result);
    if (piece.last_of_micro_batch && !piece.last && options_.between_micro_batches) options_.between_micro_batches();
  }
  result.score = score->pack();
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
