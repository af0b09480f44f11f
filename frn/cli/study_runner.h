// Runs the cells of a study, each as a process of this program, some at a time. A cell that fails is a failed cell: the
// others go on.
#pragma once

#include <functional>

#include "frn/study/folder.h"

namespace frn::cli {

struct StudyJob {
  study::Cell cell;
  int64_t steps = 0;
  double work = 0;  // in any unit; what is left follows from it
};

struct StudyOutcome {
  int signal = 0;  // that ended it, or 0
  std::vector<std::string> failed;
};

// Only for cells that are not finished, diverged or (at the same max_steps) stopped; one that was begun goes on. On
// a request to stop cells get SIGTERM, write their checkpoints, and nothing more is started; on a second one they are
// killed. `begin` is called once the folder is this process's alone. Prints progress. Throws frn::Error when another
// study is at work in the folder, or a cell there has other settings.
StudyOutcome run_cells(const study::Folder& folder, const std::vector<StudyJob>& jobs, int64_t at_once,
                       const std::function<void()>& begin);

}  // namespace frn::cli
