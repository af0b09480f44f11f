#include "frn/cli/study_runner.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <deque>
#include <memory>

#include "frn/cli/stop_signals.h"
#include "frn/cli/study_process.h"
#include "frn/cli/study_progress.h"
#include "frn/core/error.h"
#include "frn/core/folder_lock.h"
#include "frn/study/results.h"
#include "frn/train/config.h"

namespace frn::cli {
namespace {

using study::CellResult;
using study::CellState;

constexpr useconds_t kPause = 50'000;
constexpr auto kPatience = std::chrono::seconds(30);

class CaughtSignals {
 public:
  CaughtSignals() { catch_stop_signals(SecondRequest::kIsCounted); }
  ~CaughtSignals() { release_stop_signals(); }
  CaughtSignals(const CaughtSignals&) = delete;
  CaughtSignals& operator=(const CaughtSignals&) = delete;
};

bool may_change(const std::string& key) {
  if (key == "data") return false;  // a trial on generated images must not become half of a result
  train::TrainConfig config;
  for (const auto& setting : train::settings_of(config)) {
    if (setting.key == key) return setting.free_on_resume;
  }
  return false;
}

bool is_done(const CellResult& result) {
  return result.state == CellState::kFinished || result.state == CellState::kDiverged ||
         result.state == CellState::kStopped;
}

class Runner {
 public:
  Runner(const study::Folder& folder, const std::vector<StudyJob>& jobs, size_t at_once)
      : folder_(folder), at_once_(at_once) {
    for (const auto& job : jobs) {
      folder_.check_same_settings(job.cell, may_change);
      total_ += job.work;
      if (is_done(study::read_cell(folder_, job.cell))) {
        done_ += job.work;
        ++cells_done_;
      } else {
        waiting_.push_back(job);
      }
    }
    cells_ = jobs.size();
  }

  StudyOutcome run() {
    if (waiting_.empty()) return outcome_;
    if (cells_done_ > 0) fmt::print("{} of {} cells are there already\n", cells_done_, cells_);
    const CaughtSignals caught;
    StudyProgress progress(cells_, cells_done_, total_, done_ + work_there());
    int requests_seen = 0;
    while (true) {
      if (stop_requests() != requests_seen) {
        requests_seen = stop_requests();
        stop(progress, requests_seen);
      }
      while (!stop_requested() && !waiting_.empty() && running_.size() < at_once_) start_next();
      if (running_.empty()) break;
      usleep(kPause);
      collect(progress);
      progress.show(done_ + work_there(), state());
    }
    outcome_.signal = stop_signal();
    return outcome_;
  }

 private:
  struct Running {
    StudyJob job;
    std::unique_ptr<CellProcess> process;
  };

  void start_next() {
    auto job = std::move(waiting_.front());
    waiting_.pop_front();
    auto process = std::make_unique<CellProcess>(folder_, job.cell);
    running_.push_back({std::move(job), std::move(process)});
  }

  void stop(StudyProgress& progress, int request) {
    if (!running_.empty()) {
      progress.line(request > 1 ? "stopping at once" : "stopping: the cells under way write their checkpoints");
    }
    for (const auto& cell : running_) cell.process->send(request > 1 ? SIGKILL : SIGTERM);
  }

  void collect(StudyProgress& progress) {
    for (size_t i = 0; i < running_.size();) {
      if (!running_[i].process->ended(stop_requested())) {
        ++i;
        continue;
      }
      const auto job = running_[i].job;
      running_.erase(running_.begin() + static_cast<std::ptrdiff_t>(i));
      const auto result = study::read_cell(folder_, job.cell);
      if (result.state == CellState::kFailed) outcome_.failed.push_back(job.cell.name);
      done_ += job.work;
      progress.cell_ended(result, done_ + work_there());
    }
  }

  // Of cells that are under way.
  double work_there() const {
    double out = 0;
    for (const auto& cell : running_) {
      if (cell.job.steps <= 0) continue;
      const double share = static_cast<double>(cell.process->step()) / static_cast<double>(cell.job.steps);
      out += cell.job.work * std::min(1.0, share);
    }
    return out;
  }

  std::string state() const {
    std::string out;
    for (const auto& cell : running_) {
      out += fmt::format("{}{} step {}/{}", out.empty() ? "" : ", ", cell.job.cell.name, cell.process->step(),
                         cell.job.steps);
    }
    return out;
  }

  const study::Folder& folder_;
  size_t at_once_;
  std::deque<StudyJob> waiting_;
  std::vector<Running> running_;
  StudyOutcome outcome_;
  double total_ = 0, done_ = 0;
  size_t cells_ = 0, cells_done_ = 0;
};

}  // namespace

StudyOutcome run_cells(const study::Folder& folder, const std::vector<StudyJob>& jobs, int64_t at_once,
                       const std::function<void()>& begin) {
  folder.make();
  // Held by cells too: those of a killed study are given time to write their checkpoints.
  const FolderLock lock(folder.path, {.file = study::kStudyLock,
                                      .operation = "study",
                                      .advice = "let it end, or stop it, first",
                                      .for_children = true,
                                      .patience = kPatience});
  if (lock.weakness()) fmt::print(stderr, "frn: {}\n", *lock.weakness());
  begin();
  return Runner(folder, jobs, static_cast<size_t>(at_once)).run();
}

}  // namespace frn::cli
