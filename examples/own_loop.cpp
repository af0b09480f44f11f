// A loop written by hand over frn's parts: a set, batches in an order that can be repeated, a step with virtual
// devices, an optimiser, a validation. Take Trainer (own_task.cpp) unless you need to change what happens in between.
#include <fmt/core.h>

#include "frn/data/loader.h"
#include "frn/models/model.h"
#include "frn/train/classification.h"
#include "frn/train/evaluate.h"
#include "frn/train/gradients.h"
#include "frn/train/sgd.h"
#include "frn/train/step.h"

namespace data = frn::data;
namespace train = frn::train;

data::Pipeline pipeline_of(const data::SetFacts& facts) {
  return {.size = 12, .channels = facts.channels, .mean = facts.mean, .deviation = facts.deviation};
}

int main() {
  const auto name = data::parse_data_name("fashion-mini");
  const auto training_set = data::open_dataset(name, data::Split::kTrain);
  const auto validation_set = data::open_dataset(name, data::Split::kValidation);
  const auto model = frn::make_model(
      "resnetv2-8",
      {.norm = frn::NormActSpec::parse("frn+tlu"), .classes = 10, .input_channels = training_set->facts().channels});
  const auto task = std::make_shared<train::Classification>();
  train::Step step(model, task, {.batch_per_device = 4, .devices = 8});
  const auto groups = frn::parameter_groups(*model);
  train::Sgd sgd(groups, {.momentum = 0.9, .weight_decay = 1e-4});
  train::Gradients gradients(groups);

  data::Loader loader(training_set, pipeline_of(training_set->facts()),
                      data::BatchOrder({.samples = training_set->size(), .batch_global = 32, .seed = 1, .epochs = 1}),
                      {.workers = 1});
  double first = 0;
  double last = 0;
  while (const auto batch = loader.next()) {
    last = step.run(*batch).loss;
    if (batch->number == 0) first = last;
    sgd.step(0.05);
    gradients.clear();
  }
  const auto result = train::evaluate(model, *task, validation_set, pipeline_of(training_set->facts()), {});
  fmt::print("loss {:.2f} at first, {:.2f} at last; {:.1f} % of {} images right\n", first, last,
             100 * result["precision_at_1"], result.samples);
  return last < first && result["precision_at_1"] > 0.4 ? 0 : 1;
}
