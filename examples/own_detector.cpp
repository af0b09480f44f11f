// A detector on boxes of one's own: bright squares. Takes the folder of the run; another call goes on with it.
#include <ATen/Context.h>
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include "frn/models/model.h"
#include "frn/train/detection.h"
#include "frn/train/trainer.h"

namespace train = frn::train;
namespace data = frn::data;

// One bright square in every image; its box is the target.
class Squares : public data::Dataset {
 public:
  explicit Squares(uint64_t seed) : seed_(seed) { classes_ = {"square"}; }
  int64_t size() const override { return 32; }
  bool has_boxes() const override { return true; }
  std::string name(int64_t index) const override { return "square " + std::to_string(index); }
  data::Target target(int64_t index) const override {
    frn::Random random(frn::RandomKey(seed_).with(static_cast<uint64_t>(index)));
    const auto left = static_cast<double>(random.below(128 - 40));
    const auto top = static_cast<double>(random.below(128 - 40));
    return {.boxes = {{.left = left, .top = top, .right = left + 40, .bottom = top + 40}}};
  }
  std::unique_ptr<data::ImageSource> open(int64_t) const override { return nullptr; }  // this set gives tensors
  std::optional<data::Sample> sample(int64_t index, frn::RandomKey) const override {
    auto image = at::zeros({3, 128, 128});
    const auto box = target(index).boxes.front();
    image.narrow(1, static_cast<int64_t>(box.top), 40).narrow(2, static_cast<int64_t>(box.left), 40).add_(2);
    return data::Sample{image, target(index)};
  }

 private:
  uint64_t seed_;
};

int main(int argc, char** argv) {
  at::manual_seed(1);  // the first weights follow from it
  const auto model = frn::make_model("retinanet-r8", {.classes = 1, .detector = {.image_size = 128}});
  const auto task = std::make_shared<train::Detection>(train::DetectionOptions{.classes = {"square"}});
  train::TrainerOptions options;
  options.out = argc > 1 ? argv[1] : "squares";
  options.batch_per_device = 4;
  options.steps = 60;
  options.lr_base = 0.8;
  options.warmup_steps = 15;
  train::Trainer trainer(model, task, std::make_shared<Squares>(1), std::make_shared<Squares>(2), options);
  const auto outcome = trainer.run();
  fmt::print("{}: AP50 {:.2f}\n", train::status_name(outcome.status), (*outcome.validation)["AP50"]);
  return (*outcome.validation)["AP50"] > 0.5 ? 0 : 1;
}
