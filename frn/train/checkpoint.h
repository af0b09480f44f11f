// Checkpoints of a run: folders checkpoints/step-N that are whole or not there, so that a run killed at any moment goes
// on from the newest whole one.
//
//   model.safetensors    weights and running statistics, as state_of names them
//   trainer.safetensors  the optimiser's state (SGD: momentum.NAME), and ema.NAME where a moving average is kept
//   state.json           where the run stands, and the checksums of the two
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "frn/core/metric.h"
#include "frn/data/dataset.h"
#include "frn/nn/weights.h"

namespace frn {
class Value;
}

namespace frn::train {

// What training adds up between two lines of the log.
struct Running {
  double loss_sum = 0;      // losses times weights
  NamedValues loss_sums{};  // of its parts, where there are several
  double weight = 0;
  int64_t samples = 0;
  std::vector<double> score{};  // packed; empty: nothing yet
};

// All random numbers follow from the seed and the step (order, augmentation, dropout), so that these two are the state
// of sampler and generators.
struct TrainState {
  int64_t step = 0;  // updates done
  uint64_t seed = 0;
  int64_t samples = 0;  // of the training set, for a run that is resumed on other data by mistake
  int64_t batch_global = 0;
  std::vector<std::string> classes{};
  std::optional<data::SetFacts> facts{};  // of the training set; for predictions without it
  Running running{};
  double seconds = 0;  // spent on training
};

// What is known of a set, for files. set_from throws ValueError for what set_value did not make.
Value set_value(const data::SetFacts& facts);
data::SetFacts set_from(const Value& from);

// As JSON, for a file or for other ranks.
std::string to_text(const TrainState& state);
// Throws frn::Error for what to_text did not write.
TrainState state_from_text(const std::string& text);

struct Checkpoint {
  TrainState state;
  NamedTensors model;
  NamedTensors optimizer;
  NamedTensors averages;  // empty without a moving average
};

class CheckpointFolder {
 public:
  explicit CheckpointFolder(std::filesystem::path folder, int64_t kept = 3);

  // Writes step-N beside and renames it into place, then removes what is older than the newest `kept` whole ones:
  // damaged ones are not counted. Does nothing when a whole step-N is there. On failure (a full disk) frn::Error, and
  // what was there remains.
  std::filesystem::path save(const Checkpoint& checkpoint);

  // Steps that have a folder, oldest first; whole or not.
  std::vector<int64_t> steps() const;
  std::filesystem::path path_of(int64_t step) const;

  // The newest whole one, or none when there is none at all. Damaged ones are passed over and named in `damaged`.
  // Throws frn::Error when there are some and all are damaged.
  struct Found {
    Checkpoint checkpoint;
    std::filesystem::path path;
    std::vector<std::string> damaged;  // one sentence each
  };
  std::optional<Found> newest();

  // Throws frn::Error when a file is missing or differs from its checksum.
  static Checkpoint read(const std::filesystem::path& path);

 private:
  void remove_partial() const;
  void remove(int64_t step) const;
  void remove_old();
  bool is_whole(int64_t step);

  std::filesystem::path folder_;
  int64_t kept_;
  std::set<int64_t> whole_;  // written or read by this object: they need not be read again
};

}  // namespace frn::train
