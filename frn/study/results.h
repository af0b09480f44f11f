// The results of a study's cells, read from their folders, and the mean and spread over the seeds of a cell.
#pragma once

#include <limits>

#include "frn/study/folder.h"

namespace frn::study {

inline constexpr double kMissing = std::numeric_limits<double>::quiet_NaN();

enum class CellState : uint8_t {
  kMissing,     // it was not started
  kUnfinished,  // under way, or killed
  kStopped,     // ended by --max-steps
  kFailed,      // its process ended with an error
  kDiverged,
  kFinished
};

struct CellResult {
  Cell cell;
  CellState state = CellState::kMissing;
  int64_t step = 0;
  double seconds = 0;
  std::map<std::string, double> values;  // by key: the last validation's, also of a cell that was stopped
  std::vector<Metric> metrics;           // what metrics.json says that its task measures
  double samples = kMissing;             // images of that validation
  double train_samples = kMissing;       // images of training that "train." metrics are over
  std::string message;                   // why it failed or diverged
  std::string same_as;                   // the cell whose training this is, by construction; empty: its own

  const std::string& trained_as() const { return same_as.empty() ? cell.name : same_as; }
};

// "finished", "diverged", "failed", "stopped at step 5", "unfinished (step 5)", "not run".
std::string state_text(const CellResult& result);

// `same_as` names the cell whose folder to read instead.
CellResult read_cell(const Folder& folder, const Cell& cell, const std::string& same_as = "");

struct Results {
  Definition study;
  Record record;
  std::vector<CellResult> cells;
  std::vector<Metric> metrics;  // the study's, with what the cells say of them

  // The study's, or what the cells say of another key.
  Metric metric(const std::string& key) const;
  // All seeds of a cell, in order.
  std::vector<const CellResult*> at(size_t row, size_t column) const;
  size_t count(CellState state) const;
  size_t count_same() const;  // cells that are another's training
};

// Throws frn::Error when the folder holds no study. Cells that are not there are missing, not errors. A cell that has
// no folder but is the same training as another by construction has that one's results.
Results read_results(const Folder& folder);

// Whether ours are of the same images, networks and steps as the paper's: only then its values can be subtracted, and a
// network that has learned nothing never will.
bool is_papers_scale(const Results& results);

// The seeds of one cell together. Stopped and unfinished cells have no value: it would be that of another training.
struct CellSummary {
  Metric metric{};
  std::vector<double> values{};                          // of finished seeds, as tables show them: shares in per cent
  std::vector<int64_t> seeds_of_values{};                // which seed each value is of
  size_t seeds = 0, diverged = 0, failed = 0, open = 0;  // open: missing, unfinished or stopped
  double mean = kMissing;
  double deviation = kMissing;               // of one seed, with n - 1; two values at least
  double samples = kMissing;                 // images that the metric is over, the fewest of a seed
  std::vector<std::string> trained_as = {};  // the trainings, seed by seed
  bool same_as_another = false;              // none of them is the cell's own
};
// How many seeds the cells have: "3 seeds", "1 to 3 seeds".
std::string seeds_text(const Results& results);
CellSummary summarise(const Results& results, const std::string& metric, size_t row, size_t column);

// A number as tables show it, without its unit: "76.21", "0.4530"; and a difference of two: "+1.00", "-0.0120".
std::string number_text(const Metric& metric, double number);
std::string signed_text(const Metric& metric, double number);

// "76.2", "76.2 ± 0.3", "diverged", "failed", "76.2 (1 of 3 diverged)", "–".
std::string summary_text(const CellSummary& summary);

}  // namespace frn::study
