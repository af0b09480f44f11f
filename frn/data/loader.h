// Delivers batches in order: worker threads prepare them ahead, a bounded queue holds them. What is in a batch does not
// depend on the number of workers.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "frn/data/batch.h"
#include "frn/data/order.h"
#include "frn/data/pipeline.h"

namespace frn::data {

struct BrokenSample {
  std::string name;
  std::string reason;
};

// What becomes of a sample that cannot be read: another takes its place (training), or it is left out (evaluation).
enum class OnBroken { kReplace, kSkip };

struct LoaderOptions {
  int64_t workers = 1;  // 0: batches are prepared when asked for, on the caller's thread
  std::optional<int64_t> batches_ahead = std::nullopt;  // bound of the queue; none: batches_ahead_of these workers
  int64_t first_batch = 0;
  bool channels_last = false;
  OnBroken on_broken = OnBroken::kReplace;
  int64_t broken_limit = 100;  // more different broken samples than that end the run with frn::Error that lists them
  std::vector<BrokenSample> known_broken{};  // told before, of a run that goes on: counted, and not told again
};

// How many batches of so many bytes are prepared ahead: two for each worker, which takes one at a time, and at least
// four; but no more than fit into kMostAhead, and at least two.
inline constexpr int64_t kMostAhead = int64_t{1} << 30;
int64_t batches_ahead_of(int64_t workers, int64_t batch_bytes);

class Loader {
 public:
  // `pipeline` prepares the images of a set that does not prepare its samples itself.
  Loader(std::shared_ptr<const Dataset> dataset, const Pipeline& pipeline, const BatchOrder& order,
         const LoaderOptions& options);
  ~Loader();
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;

  // The next batch, or none after the last. Rethrows what a worker threw.
  std::optional<Batch> next();

  // The broken samples met so far that were not told before, each once.
  std::vector<BrokenSample> newly_broken();
  // Seconds that next() has waited for a worker, or prepared batches itself where there is none.
  double seconds_waited() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace frn::data
