// A program's own model, data, task and optimiser through Trainer: everything that training has works for them.
#include <ATen/Parallel.h>
#include <torch/nn/modules/activation.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adam.h>
#include <torch/utils.h>

#include <cmath>

#include "frn/core/run_log.h"
#include "frn/core/value.h"
#include "frn/train/trainer.h"
#include "tests/core/files.h"

namespace frn::train {
namespace {

// Points x of 4 numbers with a number to predict, their sum; prepared by the set itself, with noise that follows from
// the key.
class Sums : public data::Dataset {
 public:
  explicit Sums(int64_t size) : size_(size) {}
  int64_t size() const override { return size_; }
  data::Target target(int64_t index) const override { return {.numbers = {point(index).sum().item<double>()}}; }
  std::string name(int64_t index) const override { return "point " + std::to_string(index); }
  std::unique_ptr<data::ImageSource> open(int64_t) const override { throw Error("sums", "there are no images"); }
  std::optional<data::Sample> sample(int64_t index, RandomKey key) const override {
    Random random(key);
    return data::Sample{point(index) + 0.01 * random.uniform(), target(index)};
  }

 private:
  static at::Tensor point(int64_t index) {
    Random random(RandomKey(99).with(static_cast<uint64_t>(index)));
    auto out = torch::empty({4});
    for (int64_t i = 0; i < 4; ++i) out[i] = random.uniform(-1, 1);
    return out;
  }
  int64_t size_;
};

class ErrorScore : public Score {
 public:
  void add(const Outputs& outputs, const data::Batch& batch) override {
    count_ += static_cast<double>(batch.size());
    sum_ += (outputs.at(0) - batch.numbers()).abs().sum().item<double>();
  }
  std::vector<double> pack() const override { return {count_, sum_}; }
  void merge(std::span<const double> packed) override {
    count_ += packed[0];
    sum_ += packed[1];
  }
  std::vector<double> values() const override { return {sum_ / count_}; }

 private:
  double count_ = 0, sum_ = 0;
};

class Regression : public Task {
 public:
  std::string name() const override { return "regression"; }
  std::vector<NamedLoss> losses(const Outputs& outputs, const data::Batch& batch, const LossContext&) const override {
    return {{"square_loss", (outputs.at(0) - batch.numbers()).square().mean()}};
  }
  std::vector<Metric> metrics() const override { return {{"error", "mean error", MetricKind::kNumber, false}}; }
  std::unique_ptr<Score> make_score() const override { return std::make_unique<ErrorScore>(); }
};

// A task with a fault that shows in validation alone.
class Faulty : public Regression {
 public:
  std::vector<NamedLoss> losses(const Outputs& outputs, const data::Batch& batch,
                                const LossContext& context) const override {
    if (!context.training) throw Error("faulty", "no validation today");
    return Regression::losses(outputs, batch, context);
  }
};

torch::nn::Sequential make_network() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(4, 16), torch::nn::ReLU(), torch::nn::Dropout(0.1),
                               torch::nn::Linear(16, 1));
}

class OwnTrainer : public FolderTest {
 protected:
  void SetUp() override {
    FolderTest::SetUp();
    at::set_num_threads(1);
  }

  TrainerOptions options(const std::string& name) {
    TrainerOptions options;
    options.out = folder_ / name;
    options.batch_per_device = 4;
    options.devices = 2;
    options.steps = 40;
    options.lr_base = 1;
    options.log_every = 10;
    options.validate_every = 20;
    options.checkpoint_every = 10;
    options.ema_decay = 0.9;
    return options;
  }

  Outcome run(const TrainerOptions& options, int64_t stop_after = -1) {
    std::atomic<bool> stop{false};
    auto with_stop = options;
    with_stop.events.stepped = [&](int64_t step) { stop = step == stop_after; };
    network_ = make_network();
    return Trainer(network_, std::make_shared<Regression>(), std::make_shared<Sums>(64), std::make_shared<Sums>(20),
                   with_stop)
        .run(stop);
  }

  std::string error_of_faulty_run(const std::string& name) {
    network_ = make_network();
    return error_of([&] {
      Trainer(network_, std::make_shared<Faulty>(), std::make_shared<Sums>(64), std::make_shared<Sums>(20),
              options(name))
          .run();
    });
  }

  std::string weights(const std::string& name) const {
    return contents(folder_ / name / "checkpoints" / "step-40" / "model.safetensors") +
           contents(folder_ / name / "checkpoints" / "step-40" / "trainer.safetensors");
  }

  torch::nn::Sequential network_{nullptr};
};

TEST_F(OwnTrainer, LearnsAndLeavesNamedValues) {
  const auto outcome = run(options("a"));
  EXPECT_EQ(outcome.status, Status::kFinished);
  ASSERT_TRUE(outcome.validation && outcome.best && outcome.train);
  EXPECT_LT((*outcome.validation)["error"], 0.5) << "guessing 0 is 0.9 off";
  EXPECT_EQ(outcome.validation->samples, 20);
  const auto metrics = parse_json(contents(folder_ / "a" / "metrics.json"));
  EXPECT_EQ(metrics["metrics"].as_list().at(0)["key"], "error");
  EXPECT_EQ(metrics["metrics"].as_list().at(0)["better"], "lower");
  EXPECT_GT(metrics["train"]["loss"].as_number(), 0);
  EXPECT_EQ(metrics["validation"].find("precision_at_1"), nullptr);
  // The caller's own module is the trained one.
  const auto saved = read_weights(folder_ / "a" / "checkpoints" / "step-40" / "model.safetensors");
  EXPECT_TRUE(torch::equal(saved.at("0.weight"), network_->named_parameters()["0.weight"].detach()));
}

TEST_F(OwnTrainer, GoesOnToTheSameBytesWithTorchsOwnDropout) {
  run(options("whole"));
  for (const int64_t stop_after : {1, 13, 39}) {
    const auto name = "cut" + std::to_string(stop_after);
    EXPECT_EQ(run(options(name), stop_after).status, Status::kInterrupted);
    EXPECT_EQ(run(options(name)).status, Status::kFinished);
    EXPECT_TRUE(weights(name) == weights("whole")) << stop_after;
  }
}

TEST_F(OwnTrainer, AnErrorInValidationCostsNoTraining) {
  run(options("whole"));
  const CheckpointFolder checkpoints(folder_ / "a" / "checkpoints");
  for (int sitting = 0; sitting < 2; ++sitting) {
    const auto message = error_of_faulty_run("a");
    EXPECT_NE(message.find("no validation today"), std::string::npos) << message;
    EXPECT_EQ(checkpoints.steps().back(), 20) << "where it goes on, the validation comes first";
  }
  const auto outcome = run(options("a"));
  EXPECT_EQ(outcome.status, Status::kFinished);
  EXPECT_TRUE(weights("a") == weights("whole")) << "the averages are not left in place of the weights";
  const auto validated = [&](const std::string& name) {
    std::vector<int64_t> steps;
    for (const auto& line : RunLog::read(folder_ / name / "log.jsonl")) {
      if (*line.find("event") == Value("validation")) steps.push_back(line.find("step")->as_whole());
    }
    return steps;
  };
  EXPECT_EQ(validated("a"), validated("whole"));
}

TEST_F(OwnTrainer, TakesTorchsOwnOptimizerAndGoesOnExactly) {
  const auto with_adam = [&](const std::string& name) {
    auto out = options(name);
    out.make_optimizer = [](const torch::nn::Module& model) {
      return wrap_optimizer(std::make_shared<torch::optim::Adam>(model.parameters(), torch::optim::AdamOptions(1)));
    };
    return out;
  };
  const auto model = [&](const std::string& name) {
    return contents(folder_ / name / "checkpoints" / "step-40" / "model.safetensors");
  };
  run(with_adam("whole"));
  run(with_adam("cut"), 17);
  run(with_adam("cut"));
  EXPECT_TRUE(model("cut") == model("whole"));
  run(options("sgd"));
  EXPECT_FALSE(model("sgd") == model("whole"));
}

TEST_F(OwnTrainer, AdamWGoesOnExactly) {
  const auto adamw = [&](const std::string& name) {
    auto out = options(name);
    out.optimizer = OptimizerKind::kAdamW;
    out.lr_base = 0.5;
    return out;
  };
  run(adamw("whole"));
  run(adamw("cut"), 23);
  run(adamw("cut"));
  EXPECT_TRUE(weights("cut") == weights("whole"));
}

TEST_F(OwnTrainer, ChangesNothingOfItsCallers) {
  torch::manual_seed(4);
  const auto expected = torch::rand({3});
  network_ = make_network();
  torch::manual_seed(4);
  auto own = options("a");
  own.threads = 2;
  Trainer(network_, std::make_shared<Regression>(), std::make_shared<Sums>(64), nullptr, own).run();
  EXPECT_TRUE(torch::equal(torch::rand({3}), expected)) << "random numbers";
  EXPECT_EQ(at::get_num_threads(), 1);
}

TEST_F(OwnTrainer, WithoutAValidationSetNothingIsValidated) {
  network_ = make_network();
  const auto outcome =
      Trainer(network_, std::make_shared<Regression>(), std::make_shared<Sums>(64), nullptr, options("a")).run();
  EXPECT_FALSE(outcome.validation || outcome.best);
  EXPECT_TRUE(outcome.train);
}

TEST_F(OwnTrainer, AnotherSettingForARunThatIsThereIsRefused) {
  run(options("a"), 5);
  auto other = options("a");
  other.momentum = 0.5;
  EXPECT_NE(error_of([&] { run(other); }).find("momentum = 0.9, which a resumed run keeps, but 0.5 was given"),
            std::string::npos);
  other = options("a");
  other.workers = 0;
  EXPECT_EQ(run(other).status, Status::kFinished);
}

TEST_F(OwnTrainer, WhatIsMissingIsNamed) {
  const auto with = [&](std::shared_ptr<Task> task, std::shared_ptr<data::Dataset> set, const std::string& out) {
    auto given = options("a");
    given.out = out;
    return error_of([&] { Trainer(make_network(), task, set, nullptr, given).run(); });
  };
  EXPECT_NE(with(nullptr, std::make_shared<Sums>(64), "x").find("a task must be given"), std::string::npos);
  EXPECT_NE(with(std::make_shared<Regression>(), nullptr, "x").find("a training set must be given"), std::string::npos);
  EXPECT_NE(with(std::make_shared<Regression>(), std::make_shared<Sums>(64), "").find("options.out"),
            std::string::npos);
  const torch::nn::Sequential empty(torch::nn::ReLU{});
  auto given = options("a");
  EXPECT_NE(error_of([&] {
              Trainer(empty, std::make_shared<Regression>(), std::make_shared<Sums>(64), nullptr, given).run();
            }).find("must have parameters"),
            std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(folder_ / "a"));
}

}  // namespace
}  // namespace frn::train
