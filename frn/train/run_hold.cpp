#include "frn/train/run_hold.h"

#include "frn/core/error.h"
#include "frn/core/whole_file.h"

namespace frn::train {
namespace {

namespace fs = std::filesystem;

// The folders that were missing on the way to this one, made; the innermost first.
std::vector<fs::path> make_folders(const fs::path& path) {
  std::vector<fs::path> made;
  std::error_code error;
  for (auto folder = fs::absolute(path); !folder.empty() && !fs::exists(folder, error); folder = folder.parent_path()) {
    if (folder.has_filename()) made.push_back(folder);
  }
  fs::create_directories(path, error);
  if (error) throw Error("train", "cannot make the folder " + path.string() + ": " + error.message());
  return made;
}

void remove_empty(const std::vector<fs::path>& folders) {
  std::error_code error;
  for (const auto& folder : folders) fs::remove(folder, error);
}

}  // namespace

RunHold::RunHold(const RunFolder& folder) : folder_(folder), made_(make_folders(folder.path)) {
  try {
    lock_.emplace(folder.path, FolderLock::Options{.file = kRunLock,
                                                   .operation = "train",
                                                   .advice = "one process at a time may train there: let it end first, "
                                                             "or give another --out"});
    fresh_ = !folder.holds_run();
    if (fresh_) folder.check_free();
  } catch (...) {
    lock_.reset();
    remove_empty(made_);
    throw;
  }
}

RunHold::~RunHold() {
  lock_.reset();
  remove_empty(made_);
}

void RunHold::check_in_place() const {
  if (lock_->is_in_place()) return;
  throw Error("train", folder_.path.string() +
                           " was moved or removed while it was trained, so nothing more is written; " +
                           "a moved run goes on from its newest checkpoint with --resume --out and its new path");
}

void RunHold::write(const std::string& config_text) const {
  if (contents_of(folder_.config()) != config_text) write_whole_file(folder_.config(), config_text, "train");
}

void RunHold::discard(const std::vector<fs::path>& files) const {
  if (!lock_->is_in_place()) return;
  std::error_code error;
  for (const auto& file : files) fs::remove(file, error);
  fs::remove(folder_.config(), error);
  fs::remove(folder_.checkpoints(), error);  // only when empty
}

}  // namespace frn::train
