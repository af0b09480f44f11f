// The settings of training as options: every one of train::settings_of as --its-key, and --config.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "frn/train/config.h"
#include "frn/train/run_folder.h"

namespace frn::cli {

class TrainOptions {
 public:
  void add_to(CLI::App& command);

  // Before the folder's settings are known: what the command line or --config say.
  double timeout() const;

  // Defaults, then --config, then the command line.
  train::TrainConfig resolve() const;
  // The folder's config.toml with those options changed that a resumed run may change. Throws frn::Error for another
  // that was given a different value.
  train::TrainConfig resolve_resumed(const train::RunFolder& folder) const;

 private:
  // Copies what the command line gave.
  void apply_given(train::TrainConfig& config) const;

  mutable train::TrainConfig parsed_;
  std::string file_;
  std::vector<CLI::Option*> options_;  // in the order of settings_of
};

}  // namespace frn::cli
