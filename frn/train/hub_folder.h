// A trained network in a folder to share, laid out as users of Hugging Face expect: config.json, model.safetensors and
// README.md, the model card. Nothing in it names a folder of the machine that trained.
#pragma once

#include <filesystem>
#include <string>

#include "frn/core/value.h"
#include "frn/train/run_folder.h"

namespace frn::train {

bool is_hub_folder(const std::filesystem::path& folder);

// The folder must not be there, or be empty; it appears whole or not at all. `licence` is an SPDX name for the card;
// empty: the card says that none was named. `results` is what metrics.json holds of the run, or null. Throws
// frn::Error.
void write_hub_folder(const TrainedModel& trained, const Value& results, const std::string& licence,
                      const std::filesystem::path& folder);

// As open_trained for a run; the settings name no folder of data. Throws frn::Error when a file is damaged or missing.
TrainedModel open_hub_folder(const std::filesystem::path& folder, Weights weights);
// What write_hub_folder got as `results`. Throws ValueError for a file that it did not write.
Value hub_results(const std::filesystem::path& folder);

}  // namespace frn::train
