// One process at a time in a folder, by a lock that the system takes back when its holder ends, however it ends.
#pragma once

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace frn {

class FolderLock {
 public:
  struct Options {
    std::string_view file;       // the lock's name in the folder: "run.lock"
    std::string_view operation;  // in front of the sentence when it is refused
    std::string_view advice;     // what to do then
    bool for_children = false;   // processes that this one starts hold it too, until the last of them ends
    std::chrono::seconds patience{0};
  };

  // The folder must be there. Throws frn::Error when somebody holds it for longer than the patience.
  FolderLock(const std::filesystem::path& folder, const Options& options);
  ~FolderLock();  // the file goes too, unless children hold it
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;

  // Whether the folder's lock still is the file that is held: not when the folder was moved or removed.
  bool is_in_place() const;

  // A sentence when the folder's file system takes no locks: a name of this machine's is held instead, so that a holder
  // on another machine goes unseen.
  const std::optional<std::string>& weakness() const { return weakness_; }

 private:
  bool take();
  bool take_name(int refusal);
  std::string holder() const;

  std::filesystem::path folder_, path_;
  Options options_;
  int descriptor_ = -1;
  int name_ = -1;  // a socket that holds a name of this machine's
  std::optional<std::string> weakness_;
};

}  // namespace frn
