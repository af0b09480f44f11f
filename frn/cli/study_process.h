// One cell of a study as a process of this program.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "frn/study/folder.h"

namespace frn::cli {

class CellProcess {
 public:
  // Starts `frn train` on the cell's folder, or goes on with the run in it. What it prints goes to output.txt.
  CellProcess(const study::Folder& folder, study::Cell cell);

  const study::Cell& cell() const { return cell_; }
  void send(int signal) const;
  // Whether it has ended. What went wrong is then in the folder (failure.txt).
  bool ended(bool stopping);
  // The step of the last line in its log.
  int64_t step() const;

 private:
  void record_end(int status, bool stopping) const;

  study::Folder folder_;
  study::Cell cell_;
  pid_t pid_ = -1;
};

// The last line that says what went wrong in what a program printed; empty when it printed nothing.
std::string last_message(const std::filesystem::path& output);

}  // namespace frn::cli
