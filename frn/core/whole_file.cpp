#include "frn/core/whole_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <iterator>
#include <utility>

#include "frn/core/descriptor.h"
#include "frn/core/error.h"

namespace frn {
namespace {

constexpr std::string_view kPrefix = ".frn-";
constexpr std::string_view kSuffix = ".partial";

}  // namespace

WholeFile::WholeFile(const std::filesystem::path& path, std::string_view operation)
    : operation_(operation), shown_(path.string()) {
  std::error_code error;
  target_ = std::filesystem::weakly_canonical(path, error);
  if (error) fail(error.message());
  const auto status = std::filesystem::status(target_, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail("it must be a file but is a folder or a device");  // a rename would replace the device
  }
  static std::atomic<unsigned> counter = 0;
  do {  // another process of the same number may have died here
    // Not made from the target's name, which may have all the letters that a name can have.
    beside_ = target_.parent_path() / (std::string(kPrefix) + std::to_string(getpid()) + "-" +
                                       std::to_string(counter++) + std::string(kSuffix));
    descriptor_ = open(beside_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EEXIST);
  if (descriptor_ < 0) fail_system();
}

WholeFile::~WholeFile() {
  if (descriptor_ >= 0) close(descriptor_);
  if (!in_place_) unlink(beside_.c_str());
}

void WholeFile::write(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_system();
    bytes = bytes.subspan(static_cast<size_t>(count));
  }
}

void WholeFile::put_in_place() {
  if (fsync(descriptor_) != 0 || close(std::exchange(descriptor_, -1)) != 0) fail_system();
  if (rename(beside_.c_str(), target_.c_str()) != 0) fail_system();
  in_place_ = true;
  sync_folder(target_.parent_path());
}

void WholeFile::fail(const std::string& reason) const { throw Error(operation_, shown_ + ": cannot write: " + reason); }

void WholeFile::fail_system() const { fail(std::strerror(errno)); }

void sync_file(const std::filesystem::path& path, std::string_view operation) {
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.number() >= 0 && fsync(file.number()) == 0) return;
  throw Error(operation, path.string() + ": cannot write: " + std::strerror(errno));
}

void sync_folder(const std::filesystem::path& folder) {
  const Descriptor names(open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (names.number() >= 0) fsync(names.number());
}

bool is_partial_file(std::string_view name) { return name.starts_with(kPrefix) && name.ends_with(kSuffix); }

std::string contents_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void write_whole_file(const std::filesystem::path& path, std::string_view text, std::string_view operation) {
  WholeFile file(path, operation);
  file.write(text);
  file.put_in_place();
}

void refuse_link(const std::filesystem::path& path, std::string_view operation) {
  std::error_code error;
  if (!std::filesystem::is_symlink(path, error)) return;
  throw Error(operation, path.string() + " must be of this folder but is a symbolic link; remove the link");
}

}  // namespace frn
