// A run's folder while it is trained: one trainer at a time, and a start that fails takes back what it made.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frn/core/folder_lock.h"
#include "frn/train/run_folder.h"

namespace frn::train {

inline constexpr std::string_view kRunLock = "run.lock";

class RunHold {
 public:
  // Makes the folder when it is missing. Throws frn::Error when another process holds it, or when something that
  // is not a run is in it.
  explicit RunHold(const RunFolder& folder);
  ~RunHold();  // folders that it made go again when they are empty
  RunHold(const RunHold&) = delete;
  RunHold& operator=(const RunHold&) = delete;

  // Throws frn::Error when the folder that is held is no longer there: what stands at its path is somebody else's.
  void check_in_place() const;

  bool fresh() const { return fresh_; }  // no run was there
  const std::optional<std::string>& weakness() const { return lock_->weakness(); }

  // config.toml, which `eval` and a resumed run read.
  void write(const std::string& config_text) const;
  // Of a fresh run that did not come to its first step: removes these files and what write() wrote, so that the
  // corrected command may use the same folder.
  void discard(const std::vector<std::filesystem::path>& files) const;

 private:
  RunFolder folder_;
  std::vector<std::filesystem::path> made_;  // folders, the innermost first
  std::optional<FolderLock> lock_;
  bool fresh_ = false;
};

}  // namespace frn::train
