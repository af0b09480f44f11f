#include "frn/core/folder_lock.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstring>
#include <thread>

#include "frn/core/error.h"
#include "frn/core/host_name.h"
#include "frn/core/whole_file.h"

namespace frn {
namespace {

constexpr auto kPause = std::chrono::milliseconds(100);

}  // namespace

FolderLock::FolderLock(const std::filesystem::path& folder, const Options& options)
    : folder_(folder), path_(folder / options.file), options_(options) {
  const auto end = std::chrono::steady_clock::now() + options.patience;
  while (!take()) {
    if (std::chrono::steady_clock::now() >= end) {
      throw Error(options_.operation, folder_.string() + " is in use" + holder() + "; " + std::string(options_.advice));
    }
    std::this_thread::sleep_for(kPause);
  }
}

FolderLock::~FolderLock() {
  // Nobody can take the file between its removal and the end of the lock: who opened it before finds it gone. In the
  // place of a folder that was moved, the file is somebody else's.
  if (!options_.for_children && is_in_place()) unlink(path_.c_str());
  close(descriptor_);
  if (name_ >= 0) close(name_);
}

bool FolderLock::take() {
  const int inherited = options_.for_children ? 0 : O_CLOEXEC;
  const int descriptor = open(path_.c_str(), O_RDWR | O_CREAT | inherited, 0666);
  if (descriptor < 0)
    throw Error(options_.operation, path_.string() + ": cannot make the folder's lock: " + std::strerror(errno));
  descriptor_ = descriptor;
  const bool taken = flock(descriptor_, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && take_name(errno));
  if (!taken || !is_in_place()) {
    close(descriptor_);
    if (name_ >= 0) close(name_);
    name_ = -1;
    return false;
  }
  // For the sentence that somebody else reads; the lock does not depend on it.
  const auto text = std::to_string(getpid()) + " on " + host_name() + "\n";
  [[maybe_unused]] const bool told = ftruncate(descriptor_, 0) == 0 && write(descriptor_, text.data(), text.size()) > 0;
  return true;
}

// Some network file systems refuse flock. A socket's name in the abstract space belongs to one process of the machine
// and ends with it; the lock's file is known by its device and number, whatever path leads there.
bool FolderLock::take_name(int refusal) {
  struct stat status {};
  if (fstat(descriptor_, &status) != 0) return false;
  sockaddr_un address{};
  address.sun_family = AF_UNIX;  // the first byte of sun_path stays 0: abstract
  const auto name = ("frn-lock-" + std::to_string(status.st_dev) + "-" + std::to_string(status.st_ino))
                        .substr(0, sizeof(address.sun_path) - 1);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  name_ = socket(AF_UNIX, SOCK_STREAM | (options_.for_children ? 0 : SOCK_CLOEXEC), 0);
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  if (name_ < 0 || bind(name_, reinterpret_cast<sockaddr*>(&address), length) != 0) {
    if (errno == EADDRINUSE) return false;
    // Nobody is known to be there, and nobody would be noticed: better than refusing to work.
    weakness_ = "the file system of " + folder_.string() + " refuses locks (" + std::strerror(refusal) +
                "), and this machine a name instead: a second process in this folder is not noticed";
    return true;
  }
  weakness_ = "the file system of " + folder_.string() + " refuses locks (" + std::strerror(refusal) +
              "): a second process in this folder is noticed on this machine alone";
  return true;
}

// While it is taken: the holder before may have removed the file after it was opened here.
bool FolderLock::is_in_place() const {
  struct stat held {};
  struct stat there {};
  return fstat(descriptor_, &held) == 0 && stat(path_.c_str(), &there) == 0 && held.st_ino == there.st_ino &&
         held.st_dev == there.st_dev;
}

std::string FolderLock::holder() const {
  auto text = contents_of(path_);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const bool readable =
      !text.empty() && text.size() < 300 &&
      text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-. ") == std::string::npos;
  return readable ? ": its " + std::string(options_.file) + " names process " + text : "";
}

}  // namespace frn
