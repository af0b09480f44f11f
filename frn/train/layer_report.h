// What to watch while a network with FRN trains (section 3.5 of the paper): how large activations are, how many units
// the threshold clips, and which layer went bad first.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "frn/core/run_rows.h"
#include "frn/train/step.h"

namespace frn::train {

// Every norm of the step's model, in the order in which they run, for a batch as the step takes it (devices, pieces,
// dropout); without gradients. The model's weights and statistics stay as they are.
std::vector<LayerState> layer_states(Step& step, const at::Tensor& images, std::span<const RandomKey> keys = {});

// The first layer, in the order in which they run, that gives something infinite or not a number; none when all are
// finite.
std::optional<std::string> first_bad_layer(Step& step, const at::Tensor& images, std::span<const RandomKey> keys = {});

}  // namespace frn::train
