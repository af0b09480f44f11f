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
    std::visit(
        [&](auto* value) {
          using T = std::remove_pointer_t<decltype(value)>;
          if constexpr (std::is_same_v<T, std::string>) *value = "a \"b\\c\"\n#" + std::to_string(count);
          if constexpr (std::is_same_v<T, int64_t>) *value = 1000000007 * count;
          if constexpr (std::is_same_v<T, double>) *value = count / 7.0;
          if constexpr (std::is_same_v<T, bool>) *value = !*value;
          if constexpr (std::is_same_v<T, std::vector<double>>) *value = {count / 3.0, 1, 1e-300};
        },
        setting.value);
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
  EXPECT_NE(complaint([](auto& c) { c.schedule = "cosin"; }).find("did you mean 'cosine'"), std::string::npos);
  EXPECT_NE(complaint([](auto& c) { c.lr_base = NAN; }).find("lr_base must be 0 or more"), std::string::npos);
  EXPECT_NE(complaint([](auto& c) { c.images_at_once = 7; }).find("at least one device's batch"), std::string::npos);
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

}  // namespace
}  // namespace frn::train
