// A task of one's own: where is the disc? One number, its distance from the left edge, is learned from small pictures.
// Model, data, task and optimiser are this file's; the loop, checkpoints, logs and processes are frn's.
//
//   own_task DIR            trains in the folder DIR, or goes on with the run in it; `frn report DIR` draws it
//   torchrun --nproc-per-node 2 --no-python own_task DIR      the same with two processes
#include <frn/nn/norm_act.h>
#include <frn/train/trainer.h>
#include <torch/torch.h>

#include <iostream>

namespace train = frn::train;
namespace data = frn::data;

// --- Data: pictures that are made when they are asked for ---

class Discs : public data::Dataset {
 public:
  Discs(int64_t size, uint64_t seed) : size_(size), seed_(seed) {}
  int64_t size() const override { return size_; }
  std::string name(int64_t index) const override { return "disc " + std::to_string(index); }
  data::Target target(int64_t index) const override { return {.numbers = {centre(index) / kSide}}; }
  // This set gives tensors, not image files.
  std::unique_ptr<data::ImageSource> open(int64_t) const override { return nullptr; }
  std::optional<data::Sample> sample(int64_t index, frn::RandomKey key) const override {
    frn::Random noise(key);  // the same noise again when the run is resumed
    auto image = torch::empty({1, kSide, kSide});
    auto pixels = image.accessor<float, 3>();
    for (int64_t y = 0; y < kSide; ++y) {
      for (int64_t x = 0; x < kSide; ++x) {
        const double right = static_cast<double>(x) - centre(index);
        const double down = static_cast<double>(y) - kSide / 2.0;
        pixels[0][y][x] = static_cast<float>((right * right + down * down < 9 ? 1 : 0) + 0.1 * noise.uniform());
      }
    }
    return data::Sample{image, target(index)};
  }

 private:
  static constexpr int64_t kSide = 16;
  double centre(int64_t index) const {
    return frn::Random(frn::RandomKey(seed_).with(static_cast<uint64_t>(index))).uniform(3, kSide - 3);
  }
  int64_t size_;
  uint64_t seed_;
};

// --- Model: any torch::nn module ---

struct NetworkImpl : torch::nn::Module {
  torch::nn::Conv2d conv{torch::nn::Conv2dOptions(1, 8, 3).padding(1)};
  frn::NormAct norm{"frn+tlu", 8};
  torch::nn::Linear out{8 * 16, 1};
  NetworkImpl() {
    register_module("conv", conv);
    register_module("norm", norm);
    register_module("out", out);
  }
  // Averages over rows: what is left tells where along a row the disc lies.
  torch::Tensor forward(const torch::Tensor& x) { return out(norm->forward(conv(x)).mean(2).flatten(1)); }
};
TORCH_MODULE(Network);

// --- Task: losses and scores ---

class Distance : public train::Score {
 public:
  void add(const train::Outputs& outputs, const data::Batch& batch) override {
    count_ += static_cast<double>(batch.size());
    sum_ += (outputs[0] - batch.numbers()).abs().sum().item<double>();
  }
  std::vector<double> pack() const override { return {count_, sum_}; }
  void merge(std::span<const double> packed) override {
    count_ += packed[0];
    sum_ += packed[1];
  }
  std::vector<double> values() const override { return {sum_ / count_}; }

 private:
  double count_ = 0;
  double sum_ = 0;
};

class WhereIsIt : public train::Task {
 public:
  std::string name() const override { return "where-is-it"; }
  std::vector<train::NamedLoss> losses(const train::Outputs& outputs, const data::Batch& batch,
                                       const train::LossContext&) const override {
    return {{"square_loss", (outputs[0] - batch.numbers()).square().mean()}};
  }
  std::vector<frn::Metric> metrics() const override {
    return {{"distance", "mean distance", frn::MetricKind::kShare, /*higher_is_better=*/false}};
  }
  std::unique_ptr<train::Score> make_score() const override { return std::make_unique<Distance>(); }
};

// --- Optimiser: the sign of the mean gradient ("Lion", Chen et al. 2023) ---

class Lion : public train::Optimizer {
 public:
  explicit Lion(const torch::nn::Module& model) {
    for (const auto& item : model.named_parameters()) {
      parameters_.emplace(item.key(), item.value());
      means_.emplace("mean." + item.key(), torch::zeros_like(item.value()));
    }
  }
  void step(double lr) override {
    const torch::NoGradGuard no_grad;
    for (auto& [name, parameter] : parameters_) {
      auto& mean = means_.at("mean." + name);
      parameter.sub_((0.9 * mean + 0.1 * parameter.grad()).sign(), lr);
      mean.mul_(0.99).add_(parameter.grad(), 0.01);
    }
  }
  frn::NamedTensors state() const override { return means_; }
  void load(const frn::NamedTensors& state) override {
    for (auto& [name, mean] : means_) mean.copy_(state.at(name));
  }

 private:
  frn::NamedTensors parameters_;
  frn::NamedTensors means_;
};

int main(int count, char** arguments) {
  if (count < 2) {
    std::cerr << "usage: own_task DIR\n";
    return 2;
  }
  try {
    torch::manual_seed(0);
    train::TrainerOptions options;
    options.out = arguments[1];
    options.batch_per_device = 8;
    options.devices = 2;  // of all processes together
    options.steps = 300;
    options.lr_base = 0.05;
    options.validate_every = 50;
    options.checkpoint_every = 20;
    options.threads = 1;
    options.make_optimizer = [](const torch::nn::Module& model) { return std::make_unique<Lion>(model); };
    options.events.validated = [](const frn::ValidationRow& row) {
      std::cout << "step " << row.step << ": off by " << 100 * row["distance"] << " % of the width" << std::endl;
    };
    train::Trainer trainer(Network(), std::make_shared<WhereIsIt>(), std::make_shared<Discs>(1000, 1),
                           std::make_shared<Discs>(200, 2), options);
    std::cout << status_name(trainer.run().status) << "\n";
  } catch (const frn::Error& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
