// Checkpoints are whole or not there; a damaged one is passed over, and said.
#include "frn/train/checkpoint.h"

#include <torch/types.h>

#include "tests/core/files.h"

namespace frn::train {
namespace {

namespace fs = std::filesystem;

Checkpoint sample(int64_t step) {
  Checkpoint checkpoint;
  checkpoint.state = {.step = step, .seed = 5, .samples = 100, .batch_global = 8, .classes = {"a \"b\"", "é"}};
  checkpoint.state.running = {.loss_sum = 0.1,
                              .loss_sums = {{"a_loss", 0.025}, {"b_loss", 0.075}},
                              .weight = 2.5,
                              .samples = 3,
                              .score = {3, 1, 2}};
  checkpoint.state.seconds = 1.5;
  checkpoint.model = {{"w", torch::full({1000}, static_cast<float>(step))}};
  checkpoint.optimizer = {{"momentum.w", torch::full({1000}, 0.5)}};
  checkpoint.averages = {{"w", torch::full({1000}, 0.25)}};
  return checkpoint;
}

class Checkpoints : public FolderTest {
 protected:
  // Flips one bit in the middle of a file.
  static void damage(const fs::path& path) {
    auto bytes = contents(path);
    bytes[bytes.size() / 2] = static_cast<char>(bytes[bytes.size() / 2] ^ 1);
    put(path, bytes);
  }
  const fs::path place_ = folder_ / "checkpoints";
};

TEST_F(Checkpoints, ComeBackAsTheyWere) {
  CheckpointFolder folder(place_);
  folder.save(sample(7));
  const auto found = folder.newest().value();
  EXPECT_EQ(found.path, place_ / "step-7");
  EXPECT_TRUE(found.damaged.empty());
  const auto& state = found.checkpoint.state;
  EXPECT_EQ(state.step, 7);
  EXPECT_EQ(state.seed, 5U);
  EXPECT_EQ(state.classes, sample(7).state.classes);
  EXPECT_EQ(state.running.loss_sum, 0.1);
  EXPECT_EQ(state.running.loss_sums, sample(7).state.running.loss_sums);
  EXPECT_EQ(state.running.weight, 2.5);
  EXPECT_EQ(state.running.score, (std::vector<double>{3, 1, 2}));
  EXPECT_EQ(state.seconds, 1.5);
  EXPECT_TRUE(torch::equal(found.checkpoint.model.at("w"), sample(7).model.at("w")));
  EXPECT_TRUE(torch::equal(found.checkpoint.optimizer.at("momentum.w"), sample(7).optimizer.at("momentum.w")));
  EXPECT_TRUE(torch::equal(found.checkpoint.averages.at("w"), sample(7).averages.at("w")));
}

TEST_F(Checkpoints, OnlyTheLastAreKept) {
  CheckpointFolder folder(place_, 2);
  for (const int64_t step : {9, 10, 100, 99}) folder.save(sample(step));
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{99, 100}));
}

TEST_F(Checkpoints, ADamagedOneIsNamedAndTheOneBeforeIsFound) {
  for (const auto* file : {"model.safetensors", "trainer.safetensors", "state.json"}) {
    fs::remove_all(place_);
    CheckpointFolder folder(place_);
    folder.save(sample(1));
    folder.save(sample(2));
    if (std::string(file) == "state.json") {
      put(place_ / "step-2" / file, "{\"step\": 2");
    } else {
      damage(place_ / "step-2" / file);
    }
    const auto found = folder.newest().value();
    EXPECT_EQ(found.checkpoint.state.step, 1);
    ASSERT_EQ(found.damaged.size(), 1U);
    EXPECT_NE(found.damaged[0].find(file), std::string::npos) << found.damaged[0];
  }
}

TEST_F(Checkpoints, AMissingFileCountsAsDamage) {
  CheckpointFolder folder(place_);
  folder.save(sample(1));
  fs::remove(place_ / "step-1" / "model.safetensors");
  EXPECT_NE(error_of([&] { folder.newest(); }).find("no checkpoint is whole"), std::string::npos);
}

TEST_F(Checkpoints, WhatAKilledRunLeftHalfWrittenIsNeverTaken) {
  CheckpointFolder folder(place_);
  folder.save(sample(1));
  fs::create_directories(place_ / ".partial-2");
  put(place_ / ".partial-2" / "model.safetensors", "half");
  EXPECT_EQ(folder.newest()->checkpoint.state.step, 1);
  folder.save(sample(3));
  EXPECT_FALSE(fs::exists(place_ / ".partial-2"));
}

TEST_F(Checkpoints, AFullDiskLeavesTheOneBeforeAndSaysSo) {
  CheckpointFolder folder(place_);
  folder.save(sample(1));
  std::string message;
  {
    const NoFileLongerThan tight(1000);
    message = error_of([&] { folder.save(sample(2)); });
  }
  EXPECT_NE(message.find("step 2 cannot be saved"), std::string::npos) << message;
  EXPECT_NE(message.find("step 1 is untouched"), std::string::npos) << message;
  EXPECT_EQ(folder.newest()->checkpoint.state.step, 1);
  EXPECT_FALSE(fs::exists(place_ / ".partial-2"));
}

TEST_F(Checkpoints, AWholeOneIsNotWrittenAgainAndADamagedOneIs) {
  CheckpointFolder folder(place_);
  folder.save(sample(1));
  const auto before = fs::last_write_time(place_ / "step-1" / "model.safetensors");
  folder.save(sample(1));
  EXPECT_EQ(fs::last_write_time(place_ / "step-1" / "model.safetensors"), before);
  damage(place_ / "step-1" / "model.safetensors");
  folder.save(sample(1));
  EXPECT_EQ(folder.newest()->checkpoint.state.step, 1);
}

TEST_F(Checkpoints, DamagedOnesAreNotCountedAndNothingGoesBeforeSomethingNewerIsWhole) {
  {
    CheckpointFolder folder(place_, 2);
    folder.save(sample(1));
    folder.save(sample(2));
  }
  damage(place_ / "step-2" / "model.safetensors");
  CheckpointFolder folder(place_, 1);  // a resumed run, told to keep less
  ASSERT_EQ(folder.newest()->checkpoint.state.step, 1);
  {
    const NoFileLongerThan tight(1000);
    EXPECT_NE(error_of([&] { folder.save(sample(2)); }), "no error");
  }
  EXPECT_EQ(folder.newest()->checkpoint.state.step, 1);
  EXPECT_TRUE(fs::exists(place_ / "step-2")) << "even a damaged one stays until a whole one takes its place";
  folder.save(sample(2));
  EXPECT_EQ(folder.newest()->checkpoint.state.step, 2);
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{2}));
}

TEST_F(Checkpoints, ADamagedNewerOneDoesNotCostTheOneThatWasJustWritten) {
  {
    CheckpointFolder folder(place_, 2);
    folder.save(sample(1));
    folder.save(sample(9));
  }
  damage(place_ / "step-9" / "trainer.safetensors");
  CheckpointFolder folder(place_, 1);
  folder.save(sample(2));
  EXPECT_EQ(folder.newest()->checkpoint.state.step, 2);
  folder.save(sample(9));
  EXPECT_EQ(folder.steps(), (std::vector<int64_t>{9}));
  EXPECT_EQ(folder.newest()->checkpoint.state.step, 9);
}

TEST_F(Checkpoints, NamesThatAreNotUtf8ComeBackAsTheyWere) {
  CheckpointFolder folder(place_);
  auto checkpoint = sample(1);
  checkpoint.state.classes = {"caf\xe9", "\xff\xfe", "plain"};
  folder.save(checkpoint);
  EXPECT_EQ(folder.newest()->checkpoint.state.classes, checkpoint.state.classes);
}

TEST_F(Checkpoints, AFolderThatCannotBeMadeIsOneSentence) {
  put(folder_ / "file", "");
  CheckpointFolder folder(folder_ / "file" / "checkpoints");
  EXPECT_NE(error_of([&] { folder.save(sample(1)); }).find("cannot be made"), std::string::npos);
}

TEST_F(Checkpoints, NoFolderIsNoCheckpoint) { EXPECT_FALSE(CheckpointFolder(place_).newest()); }

// As versions before 0.3 wrote it.
TEST(TrainStateText, OfEarlierVersionsIsRead) {
  const auto state =
      state_from_text(R"({"step":7,"seed":1,"samples":100,"batch_global":8,"classes":["a"],"seconds":1.5,)"
                      R"("running":{"loss_sum":0.1,"samples":3,"first":1,"first_five":2}})");
  EXPECT_EQ(state.running.weight, 3);
  EXPECT_EQ(state.running.samples, 3);
  EXPECT_EQ(state.running.score, (std::vector<double>{3, 1, 2}));
}

}  // namespace
}  // namespace frn::train
