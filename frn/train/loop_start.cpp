// How a run begins: from the weights to start from or its newest checkpoint, alike on all ranks.
#include <ATen/ops/empty.h>
#include <fmt/format.h>

#include "frn/core/error.h"
#include "frn/train/loop.h"

namespace frn::train {

// The files of --weights and --backbone may be gone once a checkpoint holds what became of them.
void Loop::load_start() {
  const auto found = group_->is_first() ? checkpoints_.newest() : std::nullopt;
  if (group_->is_first() && !found && parts_.load_weights) parts_.load_weights();
  if (settings_.ema_decay > 0) average_.emplace(module_, settings_.ema_decay);
  if (found) load(*found);
}

void Loop::start_alike() {
  if (group_->world() == 1) return;
  state_ = state_from_text(group_->broadcast_text(to_text(state_)));
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : state_of(module_)) all.push_back(tensor);
  if (average_) {
    for (const auto& [name, tensor] : average_->averages()) all.push_back(tensor);
  }
  const torch::NoGradGuard no_grad;
  group_->broadcast(all);
  group_->check_equal(all, "weights");
  send_optimizer();
}

// An optimiser may have tensors of its own on rank 0 alone, after a resume: names and shapes go first.
void Loop::send_optimizer() {
  const auto own = optimizer_->state();
  auto list = Value::empty_list();
  for (const auto& [name, tensor] : own) {
    list.push_back({{"name", name},
                    {"type", static_cast<int64_t>(tensor.scalar_type())},
                    {"sizes", Value::list_of(tensor.sizes())}});
  }
  const auto shapes = parse_json(group_->broadcast_text(to_json(list)));
  NamedTensors all;
  std::vector<at::Tensor> tensors;
  for (const auto& shape : shapes.as_list()) {
    std::vector<int64_t> sizes;
    for (const auto& size : shape.at("sizes").as_list()) sizes.push_back(size.as_whole());
    const auto& name = shape.at("name").as_text();
    const auto type = static_cast<at::ScalarType>(shape.at("type").as_whole());
    auto tensor = group_->is_first() ? own.at(name).to(group_->device()).contiguous()
                                     : at::empty(sizes, at::TensorOptions(type).device(group_->device()));
    tensors.push_back(tensor);
    all.emplace(name, tensor);
  }
  group_->broadcast(tensors);
  if (!group_->is_first()) optimizer_->load(all);
}

void Loop::check_same_training(const TrainState& saved) const {
  const auto must_be = [](const char* what, auto before, auto now) {
    if (before == now) return;
    throw Error("train", fmt::format("a resumed run must have the {} it began with, {}, but has {}; give the settings "
                                     "of its config.toml or start another run",
                                     what, before, now));
  };
  must_be("images per step", saved.batch_global, state_.batch_global);
  must_be("seed", saved.seed, state_.seed);
  if (saved.facts) {
    must_be("channels of an image", saved.facts->channels, state_.facts->channels);
    must_be("image size of the set", saved.facts->image_size, state_.facts->image_size);
  }
  if (saved.samples == state_.samples && saved.classes == state_.classes) return;
  throw Error(
      "train",
      fmt::format("a resumed run must see the training set it began with, {} images of {} classes, but {} "
                  "holds {} of {}; give the same --data or start another run",
                  saved.samples, saved.classes.size(), parts_.data_name, state_.samples, state_.classes.size()));
}

void Loop::load(const CheckpointFolder::Found& found) {
  for (const auto& sentence : found.damaged) {
    parts_.events.warned(sentence + "; going on from " + found.path.string());
  }
  check_same_training(found.checkpoint.state);
  load_state(module_, found.checkpoint.model);
  optimizer_->load(found.checkpoint.optimizer);
  if (average_) average_->load(found.checkpoint.averages);
  state_ = found.checkpoint.state;
}

}  // namespace frn::train
