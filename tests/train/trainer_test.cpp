// A run from start to end on the built-in images: what it leaves, that it can be cut anywhere, and that it says what
// went wrong.
#include "frn/train/trainer.h"

#include <ATen/Parallel.h>
#include <torch/types.h>

#include "frn/core/run_log.h"
#include "frn/core/value.h"
#include "tests/core/files.h"

namespace frn::train {
namespace {

namespace fs = std::filesystem;

std::string numbered(std::string text, int64_t number) { return text.append(std::to_string(number)); }

TrainConfig tiny() {
  TrainConfig config;
  config.model = "resnetv2-8";
  config.batch_per_device = 4;
  config.devices = 2;
  config.steps = 12;
  config.image_size = 8;
  config.log_every = 4;
  config.validate_every = 6;
  config.checkpoint_every = 5;
  config.weight_decay = 1e-3;
  return config;
}

class TrainerTest : public FolderTest {
 protected:
  // One thread: the maps are tiny, and tests run side by side.
  void SetUp() override {
    FolderTest::SetUp();
    at::set_num_threads(1);
  }

  Outcome run(const std::string& name, const TrainConfig& config, int64_t stop_after = -1) {
    const RunFolder folder{folder_ / name};
    if (!folder.holds_run()) folder.start(config);
    std::atomic<bool> stop{false};
    TrainerEvents events;
    events.stepped = [&](int64_t step) { stop = step == stop_after; };
    events.warned = [&](const std::string& sentence) { warnings_.push_back(sentence); };
    return train(folder, config, events, stop);
  }
  std::string weights(const std::string& name, int64_t step) const {
    return contents(folder_ / name / "checkpoints" / numbered("step-", step) / "model.safetensors");
  }
  std::string trainer_file(const std::string& name, int64_t step) const {
    return contents(folder_ / name / "checkpoints" / numbered("step-", step) / "trainer.safetensors");
  }
  // Lines without what differs from run to run.
  std::vector<Value> lines(const std::string& name) const {
    std::vector<Value> out;
    for (auto line : RunLog::read(folder_ / name / "log.jsonl")) {
      if (line["event"] != "train" && line["event"] != "validation" && line["event"] != "layers") continue;
      line.erase("images_per_second");
      line.erase("wait_share");
      out.push_back(line);
    }
    return out;
  }
  std::vector<std::string> warnings_;
};

TEST_F(TrainerTest, LeavesALogMetricsCurvesAndCheckpoints) {
  auto config = tiny();
  config.layers_every = 6;
  const auto outcome = run("a", config);
  EXPECT_EQ(outcome.status, Status::kFinished);
  EXPECT_EQ(outcome.step, 12);
  EXPECT_EQ(outcome.validation->samples, 1000);
  const auto log = lines("a");
  ASSERT_EQ(log.size(), 3U + 2U + 2U);
  EXPECT_EQ(log[0]["event"], "train");
  EXPECT_EQ(log[0]["step"], 4);
  EXPECT_GT(log[0]["gradient_norm"].as_number(), 0);
  const auto metrics = parse_json(contents(folder_ / "a" / "metrics.json"));
  EXPECT_EQ(metrics["status"], "finished");
  EXPECT_EQ(metrics["validation"]["step"], 12);
  EXPECT_EQ(CheckpointFolder(folder_ / "a" / "checkpoints").steps(), (std::vector<int64_t>{5, 10, 12}));
  const auto trained = open_trained({folder_ / "a"});
  EXPECT_EQ(trained.step, 12);
  EXPECT_EQ(trained.classes.size(), 10U);
  EXPECT_FALSE(trained.model->is_training());
}

TEST_F(TrainerTest, ARunThatWasInterruptedEndsWithTheSameBytes) {
  auto config = tiny();
  config.ema_decay = 0.9;
  config.clip_gradient_norm = 1;
  run("whole", config);
  for (const int64_t stop_after : {1, 5, 11}) {
    const auto name = numbered("cut", stop_after);
    EXPECT_EQ(run(name, config, stop_after).status, Status::kInterrupted);
    EXPECT_EQ(run(name, config).status, Status::kFinished);
    EXPECT_TRUE(weights(name, 12) == weights("whole", 12)) << stop_after;
    EXPECT_TRUE(trainer_file(name, 12) == trainer_file("whole", 12)) << stop_after;
    EXPECT_EQ(lines(name), lines("whole"));
  }
}

// Standardised weights, normalised activations, a learned eps: numbers that are made anew at every step.
TEST_F(TrainerTest, WithStandardisedWeightsARunCanBeCutAndDoesNotSeeDevices) {
  auto config = tiny();
  config.norm = "frn(eps=learned,eps_start=1,proxy=true)+tlu";
  config.weights_standardised = "gain";
  config.ema_decay = 0.9;
  config.layers_every = 6;
  run("whole", config);
  EXPECT_EQ(run("cut", config, 7).status, Status::kInterrupted);
  EXPECT_EQ(run("cut", config).status, Status::kFinished);
  EXPECT_TRUE(weights("cut", 12) == weights("whole", 12));
  EXPECT_TRUE(trainer_file("cut", 12) == trainer_file("whole", 12));
  EXPECT_EQ(lines("cut"), lines("whole"));
  config.batch_per_device *= config.devices;
  config.devices = 1;
  run("one device", config);
  EXPECT_TRUE(weights("one device", 12) == weights("whole", 12));
}

TEST_F(TrainerTest, DropoutIsTheSameAfterAResume) {
  auto config = tiny();
  config.model = "vgg-a-small";
  config.image_size = 32;
  config.norm = "frn(eps=learned)+tlu";
  config.steps = 4;
  config.checkpoint_every = 1;
  config.validate_every = 4;
  run("whole", config);
  run("cut", config, 2);
  run("cut", config);
  EXPECT_TRUE(weights("cut", 4) == weights("whole", 4));
}

TEST_F(TrainerTest, ADamagedCheckpointIsPassedOverAndTheEndIsTheSame) {
  const auto config = tiny();
  run("whole", config);
  run("cut", config, 11);
  put(folder_ / "cut" / "checkpoints" / "step-11" / "state.json", "{");
  run("cut", config);
  ASSERT_EQ(warnings_.size(), 1U);
  EXPECT_NE(warnings_[0].find("step-11"), std::string::npos);
  EXPECT_TRUE(weights("cut", 12) == weights("whole", 12));
  EXPECT_EQ(lines("cut"), lines("whole"));
}

TEST_F(TrainerTest, TheNumberOfWorkersDoesNotChangeTheWeights) {
  auto config = tiny();
  config.workers = 0;
  run("w0", config);
  for (const int64_t workers : {1, 4}) {
    config.workers = workers;
    const auto name = numbered("w", workers);
    run(name, config);
    EXPECT_TRUE(weights(name, 12) == weights("w0", 12)) << workers;
  }
}

TEST_F(TrainerTest, AnotherSeedGivesOtherWeights) {
  auto config = tiny();
  run("a", config);
  config.seed = 1;
  run("b", config);
  EXPECT_FALSE(weights("a", 12) == weights("b", 12));
}

TEST_F(TrainerTest, ALossThatExplodesEndsTheRunWithStepRateLayerAndAdvice) {
  auto config = tiny();
  config.norm = "none+relu";
  config.lr_base = 1e9;
  config.warmup_steps = 0;
  const auto outcome = run("a", config);
  EXPECT_EQ(outcome.status, Status::kDiverged);
  EXPECT_LT(outcome.step, 12);
  EXPECT_NE(outcome.message.find("at step " + std::to_string(outcome.step + 1)), std::string::npos) << outcome.message;
  EXPECT_NE(outcome.message.find("the first layer with a bad output is "), std::string::npos) << outcome.message;
  EXPECT_NE(outcome.message.find("--warmup-steps"), std::string::npos);
  EXPECT_EQ(parse_json(contents(folder_ / "a" / "metrics.json"))["status"], "diverged");
}

TEST_F(TrainerTest, ARunThatCannotBeginLeavesNoFolder) {
  const auto begin = [&](const TrainConfig& config) {
    return error_of([&] { train({folder_ / "a"}, config, {}, std::atomic<bool>{false}); });
  };
  auto config = tiny();
  config.batch_per_device = 9000;
  EXPECT_NE(begin(config).find("take smaller batches"), std::string::npos);
  config = tiny();
  config.weights = folder_ / "nothing.safetensors";
  EXPECT_NE(begin(config).find("nothing.safetensors"), std::string::npos);
  config = tiny();
  config.model = "vgg-a-small";
  EXPECT_NE(begin(config).find("image_size must be at least 32 for vgg-a-small but is 8"), std::string::npos);
  config = tiny();  // seen by the first step alone
  config.norm = "bn+relu";
  config.batch_per_device = 1;
  config.image_size = 1;
  EXPECT_NE(begin(config).find("more than 1 value per channel"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "a"));
  EXPECT_EQ(run("a", tiny()).status, Status::kFinished);
}

TEST_F(TrainerTest, AFolderWithOtherThingsIsRefusedAndLeftAsItWas) {
  const auto begin = [&] { return error_of([&] { train({folder_ / "a"}, tiny(), {}, std::atomic<bool>{false}); }); };
  for (const auto* name : {"log.jsonl", "events.out.tfevents.1.host.2", "notes.md", "checkpoints/step-3/state.json"}) {
    fs::remove_all(folder_ / "a");
    fs::create_directories((folder_ / "a" / name).parent_path());
    put(folder_ / "a" / name, "mine");
    const auto message = begin();
    EXPECT_NE(message.find("must be empty or a new folder but holds "), std::string::npos) << message;
    EXPECT_EQ(contents(folder_ / "a" / name), "mine");
    EXPECT_FALSE(fs::exists(folder_ / "a" / "run.lock"));
  }
}

TEST_F(TrainerTest, AStartThatFailsTakesBackOnlyWhatItMade) {
  auto config = tiny();  // a failure that the first step alone sees: log and curves are there by then
  config.norm = "bn+relu";
  config.batch_per_device = 1;
  config.image_size = 1;
  const auto begin = [&](const fs::path& out) {
    return error_of([&] { train({out}, config, {}, std::atomic<bool>{false}); });
  };
  fs::create_directories(folder_ / "mine" / "cell");
  put(folder_ / "mine" / "cell" / "cell.toml", "x = 1");
  EXPECT_NE(begin(folder_ / "mine" / "cell").find("more than 1 value"), std::string::npos);
  EXPECT_EQ(std::distance(fs::directory_iterator(folder_ / "mine" / "cell"), {}), 1);
  EXPECT_NE(begin(folder_ / "mine" / "b" / "c").find("more than 1 value"), std::string::npos);
  EXPECT_FALSE(fs::exists(folder_ / "mine" / "b"));
  EXPECT_TRUE(fs::exists(folder_ / "mine"));
}

TEST_F(TrainerTest, OneTrainerPerFolder) {
  std::string second;
  TrainerEvents events;
  const RunFolder folder{folder_ / "a"};
  events.stepped = [&](int64_t step) {
    if (step == 7) second = error_of([&] { train(folder, tiny(), {}, std::atomic<bool>{false}); });
  };
  EXPECT_EQ(train(folder, tiny(), events, std::atomic<bool>{false}).status, Status::kFinished);
  EXPECT_NE(second.find("is in use"), std::string::npos) << second;
  run("b", tiny());
  EXPECT_TRUE(weights("a", 12) == weights("b", 12));
}

// Somebody moves a run's folder while it is trained, and another run begins where it was.
TEST_F(TrainerTest, ARunWhoseFolderWasMovedWritesNothingInItsPlace) {
  const RunFolder folder{folder_ / "a"};
  TrainerEvents events;
  events.stepped = [&](int64_t step) {
    if (step != 7) return;
    fs::rename(folder.path, folder_ / "moved");
    folder.start(tiny());
  };
  const auto message = error_of([&] { train(folder, tiny(), events, std::atomic<bool>{false}); });
  EXPECT_NE(message.find("was moved or removed while it was trained"), std::string::npos) << message;
  EXPECT_FALSE(fs::exists(folder.checkpoints()));
  EXPECT_FALSE(fs::exists(folder.metrics()));
  EXPECT_TRUE(folder.holds_run());
  run("whole", tiny());
  run("moved", tiny());
  EXPECT_TRUE(weights("moved", 12) == weights("whole", 12)) << "it goes on from its newest checkpoint";
}

TEST_F(TrainerTest, AResumedRunKeepsItsImagesPerStepAndItsSeed) {
  run("a", tiny(), 6);
  auto config = tiny();
  config.devices = 4;
  const auto message = error_of([&] { run("a", config); });
  EXPECT_NE(message.find("must have the images per step it began with, 8, but has 16"), std::string::npos) << message;
  config = tiny();
  config.seed = 3;
  EXPECT_NE(error_of([&] { run("a", config); }).find("must have the seed it began with, 0, but has 3"),
            std::string::npos);
  run("whole", tiny());
  EXPECT_EQ(run("a", tiny()).status, Status::kFinished);
  EXPECT_TRUE(weights("a", 12) == weights("whole", 12));
}

TEST_F(TrainerTest, GradientsThatAreNotFiniteEndTheRunBeforeTheWeightsChange) {
  auto config = tiny();
  config.norm = "gn+relu";
  config.warmup_steps = 0;
  config.checkpoint_every = 1;
  config.checkpoints_kept = 100;
  int found = 0;
  // Where the loss is the first to go depends on the size of the step: look at several.
  for (const double rate : {1e15, 1e16, 1e18, 1e20}) {
    const auto name = "rate " + std::to_string(rate);
    config.lr_base = rate;
    const auto outcome = run(name, config);
    if (outcome.status != Status::kDiverged) continue;
    for (const auto& entry : fs::directory_iterator(folder_ / name / "checkpoints")) {
      for (const auto& [key, tensor] : read_weights(entry.path() / "model.safetensors")) {
        EXPECT_TRUE(tensor.isfinite().all().item<bool>()) << entry.path() << " " << key;
      }
    }
    if (outcome.message.starts_with("the gradient of ")) {
      ++found;
      EXPECT_NE(outcome.message.find("with a finite loss of"), std::string::npos) << outcome.message;
      EXPECT_NE(outcome.message.find("--lr-base"), std::string::npos) << outcome.message;
    }
  }
  EXPECT_GT(found, 0) << "no rate gave a bad gradient with a finite loss: the test looks at nothing";
}

TEST_F(TrainerTest, AResumedRunDoesNotNeedTheWeightsItBeganWith) {
  run("a", tiny());
  auto config = tiny();
  config.weights = folder_ / "start.safetensors";
  fs::copy(folder_ / "a" / "checkpoints" / "step-12" / "model.safetensors", config.weights);
  run("whole", config);
  run("b", config, 6);
  fs::remove(config.weights);
  EXPECT_EQ(run("b", config).status, Status::kFinished);
  EXPECT_TRUE(weights("b", 12) == weights("whole", 12));
}

TEST_F(TrainerTest, SettingsThatAResumedRunChangesAreRemembered) {
  run("a", tiny(), 6);
  auto config = tiny();
  config.workers = 0;
  run("a", config);
  EXPECT_EQ(RunFolder{folder_ / "a"}.read_config().workers, 0);
}

TEST_F(TrainerTest, AFolderWithARunIsNotStartedAgain) {
  RunFolder{folder_ / "a"}.start(tiny());
  EXPECT_NE(error_of([&] { RunFolder{folder_ / "a"}.start(tiny()); }).find("--resume"), std::string::npos);
}

TEST_F(TrainerTest, FineTuningStartsFromAFile) {
  auto config = tiny();
  run("a", config);
  config.weights = folder_ / "a" / "checkpoints" / "step-12" / "model.safetensors";
  config.lr_base = 0;
  run("b", config);
  EXPECT_TRUE(weights("b", 12) == weights("a", 12));
}

TEST_F(TrainerTest, EpsComesWithConvertedWeightsAndShowsInTheSettings) {
  const auto file = folder_ / "converted.safetensors";
  write_weights(file, {}, {{"frn.norm", "bn(eps=0.001)+relu"}});
  const auto norm = [&](const std::string& asked, const fs::path& weights) {
    TrainConfig config;
    config.norm = asked;
    config.weights = weights;
    return with_settings_of_weights(config).norm;
  };
  EXPECT_EQ(norm("bn+relu", file), "bn(eps=0.001)+relu");
  EXPECT_EQ(norm("bn(momentum=0.2)+tlu", file), "bn(eps=0.001,momentum=0.2)+tlu");
  EXPECT_EQ(norm("bn(eps=1e-05)+relu", file), "bn(eps=1e-05)+relu") << "what a person says counts";
  EXPECT_EQ(norm("frn+tlu", file), "frn+tlu");
  EXPECT_EQ(norm("bn+relu", ""), "bn+relu");
  write_weights(file, {});
  EXPECT_EQ(norm("bn+relu", file), "bn+relu");
  write_weights(file, {}, {{"frn.weights_standardised", "plain(eps=1e-08)"}});
  const auto standardised = [&](const std::string& asked) {
    TrainConfig config;
    config.weights_standardised = asked;
    config.weights = file;
    return with_settings_of_weights(config).weights_standardised;
  };
  EXPECT_EQ(standardised("off"), "plain(eps=1e-08)");
  EXPECT_EQ(standardised("plain"), "plain(eps=1e-08)");
  EXPECT_EQ(standardised("plain(eps=0.1)"), "plain(eps=0.1)") << "what a person says counts";
  EXPECT_EQ(standardised("gain"), "gain");
}

TEST_F(TrainerTest, TheNetworkFitsTheSetNotItsKind) {
  auto config = tiny();
  config.data = "random:9x1x7";
  config.image_size.reset();
  config.steps = 1;
  run("a", config);
  const auto trained = open_trained({folder_ / "a"});
  EXPECT_EQ(trained.facts.channels, 1);
  EXPECT_EQ(trained.facts.image_size, 9);
  EXPECT_EQ(evaluation_pipeline(trained.config, trained.facts).size, 9);
  for (const auto& [name, tensor] : read_weights(folder_ / "a" / "checkpoints" / "step-1" / "model.safetensors")) {
    EXPECT_TRUE(name != "stem.conv.weight" || tensor.size(1) == 1);
  }
}

TEST_F(TrainerTest, BfloatAutocastTrains) {
  auto config = tiny();
  config.autocast = Autocast::kBfloat16;
  config.steps = 3;
  EXPECT_EQ(run("a", config).status, Status::kFinished);
}

TEST_F(TrainerTest, EvaluationCountsEverySampleOnceWhateverTheBatch) {
  run("a", tiny());
  const auto trained = open_trained({folder_ / "a"});
  const auto name = data::parse_data_name("fashion-mini");
  const auto set = data::open_dataset(name, data::Split::kValidation);
  const auto pipeline = evaluation_pipeline(trained.config, trained.facts);
  const auto one = evaluate(trained.model, *trained.task, set, pipeline, {.images_at_once = 1000});
  const auto other = evaluate(trained.model, *trained.task, set, pipeline, {.images_at_once = 77, .workers = 0});
  EXPECT_EQ(one.samples, 1000);
  EXPECT_EQ(other.samples, 1000);
  EXPECT_EQ(one["precision_at_1"], other["precision_at_1"]);
  EXPECT_EQ(one["recall_at_5"], other["recall_at_5"]);
  EXPECT_NEAR(one["loss"], other["loss"], 1e-5);
}

}  // namespace
}  // namespace frn::train
