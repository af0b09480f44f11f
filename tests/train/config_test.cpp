// Settings go to TOML and come back; what cannot be is one sentence.
#include "frn/train/config.h"

#include <cmath>

#include "tests/core/files.h"

namespace frn::train {
namespace {

class Config : public FolderTest {
 protected:
  std::string error_of_toml(const std::string& text) {
    put(path_, text);
    return error_of([&] {
      TrainConfig config;
      read_toml(config, path_);
    });
  }
  const std::filesystem::path path_ = folder_ / "config.toml";
};

TEST_F(Config, EverySettingComesBackFromToml) {
  TrainConfig config;
  int64_t count = 0;
  for (const auto& setting : settings_of(config)) {
    ++count;
    const auto before = setting.get();
    Value other;
    if (!setting.choices.empty())
      other = setting.choices.back();
    else if (before.text() != nullptr)
      other = "a \"b\\c\"\n#" + std::to_string(count);
    else if (before.flag() != nullptr)
      other = !before.as_flag();
    else if (before.whole() != nullptr)
      other = 1000000007 * count;
    else if (before.list() != nullptr)
      other = Value::list_of(std::vector<double>{static_cast<double>(count) / 3.0, 1, 1e-300});
    else
      other = static_cast<double>(count) / 7.0;
    EXPECT_TRUE(setting.put(other)) << setting.key;
    EXPECT_EQ(setting.get(), other) << setting.key;
  }
  put(path_, to_toml(config));
  TrainConfig read;
  read_toml(read, path_);
  EXPECT_EQ(to_toml(read), to_toml(config));
  EXPECT_NE(to_toml(read), to_toml(TrainConfig{}));
}

TEST_F(Config, TheDefaultsCanBeTrained) { EXPECT_NO_THROW(check(TrainConfig{})); }

TEST_F(Config, AMisspeltKeyIsNamedWithTheNearest) {
  EXPECT_NE(error_of_toml("batch_per_devcie = 3").find("did you mean 'batch_per_device'"), std::string::npos);
}

TEST_F(Config, AnotherTypeIsAnError) {
  EXPECT_NE(error_of_toml("steps = 1.5").find("steps must be a whole number"), std::string::npos);
  EXPECT_NE(error_of_toml("lr_base = \"0.1\"").find("lr_base must be a number"), std::string::npos);
  EXPECT_NE(error_of_toml("lr_drops = [0.1, true]").find("lr_drops must be a list of numbers"), std::string::npos);
}

TEST_F(Config, WhatIsNotTomlIsAnErrorWithItsLine) {
  EXPECT_NE(error_of_toml("steps = 3\nmodel = = 3").find("line 2"), std::string::npos);
  EXPECT_NE(error_of([] {
              TrainConfig config;
              read_toml(config, "/nowhere.toml");
            }).find("no such file"),
            std::string::npos);
}

TEST_F(Config, ValuesThatCannotBeAreOneSentence) {
  const auto complaint = [](auto change) {
    TrainConfig config;
    change(config);
    return error_of([&] { check(config); });
  };
  EXPECT_EQ(complaint([](auto& c) { c.batch_per_device = 0; }), "[train] batch_per_device must be at least 1 but is 0");
  EXPECT_EQ(complaint([](auto& c) { c.label_smoothing = 1; }),
            "[train] label_smoothing must be from 0 to below 1 but is 1");
  EXPECT_NE(error_of_toml("schedule = 'cosin'").find("did you mean 'cosine'"), std::string::npos);
  EXPECT_NE(complaint([](auto& c) { c.lr_base = NAN; }).find("lr_base must be 0 or more"), std::string::npos);
  EXPECT_NE(complaint([](auto& c) { c.images_at_once = 7; }).find("at least one device's batch"), std::string::npos);
}

// What files of earlier versions hold: numbers that stand for "not given".
TEST_F(Config, NumbersThatStandForNothingAreRead) {
  TrainConfig config;
  config.image_size = 3;
  config.steps = 3;
  config.warmup_steps = 3;
  config.dropout = 0.3;
  read_toml_text(config, "image_size = 0\nsteps = 0\nwarmup_steps = -1\ndropout = -1.0\naugmentation = 'auto'", "x");
  EXPECT_FALSE(config.image_size || config.steps || config.warmup_steps || config.dropout || config.augmentation);
  read_toml_text(config, "warmup_steps = 0\ndropout = 0\naugmentation = 'pad-crop-flip'\ncolour = 'on'", "x");
  EXPECT_EQ(config.warmup_steps, 0);
  EXPECT_EQ(config.dropout, 0);
  EXPECT_EQ(config.augmentation, data::Augmentation::kPadCropFlip);
  EXPECT_EQ(config.colour, true);
}

TEST_F(Config, TheDefaultRateFollowsTheOptimizer) {
  TrainConfig config;
  config.batch_per_device = 256;
  EXPECT_DOUBLE_EQ(config.lr_peak(), 0.1);
  config.optimizer = OptimizerKind::kAdamW;
  EXPECT_DOUBLE_EQ(config.lr_peak(), 0.001);
  EXPECT_NE(to_toml(config).find("lr_base = 0.001"), std::string::npos);
  config.lr_base = 0.25;
  EXPECT_DOUBLE_EQ(config.lr_peak(), 0.25);
}

// A program's own Trainer writes what counts for it, and the file can be read as any other.
TEST_F(Config, GeneralSettingsAreAPartOfAll) {
  TrainSettings settings;
  settings.steps = 77;
  const auto text = to_toml(settings);
  EXPECT_EQ(text.find("model = "), std::string::npos);
  EXPECT_EQ(text.find("label_smoothing"), std::string::npos);
  TrainConfig read;
  read_toml_text(read, text, "x");
  EXPECT_EQ(read.steps, 77);
  EXPECT_EQ(to_toml(static_cast<const TrainSettings&>(read)), text);
}

TEST_F(Config, TheRateFollowsTheGlobalBatch) {
  TrainConfig config;
  config.lr_base = 0.1;
  config.batch_per_device = 4;
  config.devices = 8;
  config.accumulate = 2;
  EXPECT_EQ(config.batch_global(), 64);
  EXPECT_DOUBLE_EQ(config.lr_peak(), 0.025);
}

// Section 4.2: 125,000 steps of 64 images on COCO's 118,287, rate for 64 images, weight decay 4e-4.
TEST(DetectorDefaults, AreThePapersForAnyNumberOfImages) {
  auto config = detector_defaults();
  for (const int64_t images : {64, 16}) {
    config.batch_per_device = images / 8;
    config.devices = 8;
    const auto schedule = schedule_of(config, 118'287 / images);
    EXPECT_NEAR(static_cast<double>(schedule.steps), 125'000.0 * 64 / static_cast<double>(images),
                0.001 * static_cast<double>(schedule.steps));
    EXPECT_NEAR(static_cast<double>(schedule.warmup_steps), 2'000.0 * 64 / static_cast<double>(images),
                0.001 * static_cast<double>(schedule.warmup_steps));
    EXPECT_DOUBLE_EQ(schedule.lr_peak, 0.05 * static_cast<double>(images) / 64);
  }
  EXPECT_EQ(config.weight_decay, 4e-4);
  EXPECT_EQ(config.momentum, 0.9);
  EXPECT_DOUBLE_EQ(detector_defaults(OptimizerKind::kAdamW).default_rate(), 1e-3);
}

}  // namespace
}  // namespace frn::train
