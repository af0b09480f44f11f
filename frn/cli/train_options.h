// The settings of training as options: every one of train::settings_of as --its-key, and --config.
#pragma once

#include <deque>
#include <string>
#include <variant>
#include <vector>

#include "frn/cli/command.h"
#include "frn/train/config.h"

namespace frn::cli {

class TrainOptions {
 public:
  // They write into this object: it must stay where it is.
  std::vector<Option> options();

  // Options that a resumed run may change: "--data, --workers, ...".
  static std::string free_on_resume();

  // Before the folder's settings are known: what the command line or --config say.
  double timeout(const Given& given) const;

  // Defaults, then --config, then the command line. Throws UsageError for an option that was given and has no effect
  // with the other settings: a person who gives it expects something of hours of training. A file may have such keys,
  // as the config.toml of every run does.
  train::TrainConfig resolve(const Given& given) const;
  // The settings of a run with those options changed that a resumed run may change. Throws frn::Error for another that
  // was given a different value.
  train::TrainConfig resolve_resumed(const train::TrainConfig& saved, const Given& given) const;

 private:
  // Reads --config, then copies what the command line gave.
  void apply(train::TrainConfig& config, const Given& given) const;

  // Where an option's value goes until the settings are resolved: one for each, in their order.
  using Buffer = std::variant<bool, int64_t, double, std::string, std::vector<double>>;
  std::deque<Buffer> buffers_;
  std::string file_;
};

}  // namespace frn::cli
