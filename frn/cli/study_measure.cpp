#include "frn/cli/study_measure.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <thread>

#include "frn/cli/allocator.h"
#include "frn/cli/bench_seconds.h"
#include "frn/train/run_folder.h"
#include "frn/train/step.h"

namespace frn::cli {
namespace {

// A step of more is measured on fewer images: some seconds for each network, not minutes.
constexpr double kMostMultiplyAdds = 2e10;

// A few boxes of different sizes: what a detector's loss costs does not depend on where they are.
std::vector<data::Target> some_targets(const PlannedCell& cell, int64_t images) {
  std::vector<data::Target> out;
  const auto side = static_cast<double>(cell.image_size);
  for (int64_t i = 0; i < images; ++i) {
    auto& target = out.emplace_back();
    target.label = i % cell.classes;
    if (!find_model(cell.config.model).detects) continue;
    for (const double share : {0.1, 0.2, 0.4, 0.8}) {
      target.boxes.push_back({.left = 0.1 * side,
                              .top = 0.1 * side,
                              .right = (0.1 + share) * side,
                              .bottom = (0.1 + share) * side,
                              .label = target.label});
    }
  }
  return out;
}

}  // namespace

int64_t images_to_measure(const PlannedCell& cell) {
  const auto fitting = static_cast<int64_t>(kMostMultiplyAdds / static_cast<double>(cell.multiply_adds));
  return std::clamp<int64_t>(fitting, 2, std::max<int64_t>(2, cell.config.batch_per_device * cell.config.devices));
}

MeasuredStep measure_step(const PlannedCell& cell) {
  const auto& config = cell.config;
  at::set_num_threads(config.threads > 0 ? static_cast<int>(config.threads)
                                         : static_cast<int>(std::max(1U, std::thread::hardware_concurrency())));
  const int64_t images = images_to_measure(cell);
  const auto model =
      train::make_model(config, cell.classes, {.channels = cell.channels, .image_size = cell.image_size});
  model->train();
  const auto format = config.channels_last() ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
  const auto x = at::randn({images, cell.channels, cell.image_size, cell.image_size}).contiguous(format);
  train::Step step(model, train::make_task(config, *model, std::vector<std::string>{}),
                   {.batch_per_device = images, .devices = 1});
  const auto batch = data::make_batch(x, some_targets(cell, images));
  step.run(batch);  // warms the allocator and makes the gradients
  MeasuredStep out{0, 0, cell.multiply_adds};
  {
    const TensorBytes bytes;
    step.run(batch);
    out.bytes_per_image = static_cast<double>(bytes.peak()) / static_cast<double>(images);
  }
  const double once = seconds_of([&] { step.run(batch); });
  const int more = once > 1 ? 0 : 4;
  double best = once;
  for (int i = 0; i < more; ++i) best = std::min(best, seconds_of([&] { step.run(batch); }));
  out.seconds_per_image = best / static_cast<double>(images);
  return out;
}

}  // namespace frn::cli
