// log.jsonl of a run: one JSON object per line, each written at once, so that a killed run leaves whole lines and at
// most one cut at the end. Lines carry "event" and, where they belong to one, "step".
#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include "frn/core/value.h"

namespace frn {

// One writer at a time. Every failure is one frn::Error "[run log] path: ...".
class RunLog {
 public:
  // Opens the file, or makes it. A cut last line is dropped, so that the next one starts a line of its own.
  explicit RunLog(std::filesystem::path path);
  ~RunLog();
  RunLog(const RunLog&) = delete;
  RunLog& operator=(const RunLog&) = delete;

  // Writes the object as one line; NaN and infinities become null. On failure (a full disk) the lines before it stay.
  void append(const Value& line);

  // For a run that goes on from a checkpoint at this step: drops the lines of later steps, so that the log reads as if
  // the run had not been interrupted. A line without a step goes with the one before it.
  void truncate_after(int64_t step);

  const std::filesystem::path& path() const { return path_; }

  // All whole lines, in order. A last line without its end is left out; any other that is no JSON object is an error.
  static std::vector<Value> read(const std::filesystem::path& path);

 private:
  void open_for_append();
  void close_file();

  std::filesystem::path path_;
  int descriptor_ = -1;
};

}  // namespace frn
