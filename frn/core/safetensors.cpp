#include "frn/core/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>

#include "frn/core/safetensors_header.h"

namespace frn::safetensors {
namespace {

[[noreturn]] void fail_system(std::string_view source, const std::string& what) {
  fail(source, what + ": " + std::strerror(errno));
}

// Reads exactly that much, or throws.
void read_at(int descriptor, uint64_t position, std::span<std::byte> out, std::string_view source) {
  while (!out.empty()) {
    const ssize_t count = pread(descriptor, out.data(), out.size(), static_cast<off_t>(position));
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_system(source, "cannot read");
    if (count == 0) fail(source, "it became shorter while it was read; try again once it is written");
    out = out.subspan(static_cast<size_t>(count));
    position += static_cast<uint64_t>(count);
  }
}

Header read_header(int descriptor, std::string_view source) {
  struct stat status {};
  if (fstat(descriptor, &status) != 0) fail_system(source, "cannot read");
  if (!S_ISREG(status.st_mode)) fail(source, "it must be a file but is a folder or a device");
  const auto size = static_cast<uint64_t>(status.st_size);
  std::array<std::byte, kLengthBytes> first;
  const auto there = std::span(first).first(std::min<uint64_t>(size, kLengthBytes));
  read_at(descriptor, 0, there, source);
  std::string text(header_length(there, size, source), '\0');
  read_at(descriptor, kLengthBytes, std::as_writable_bytes(std::span(text)), source);
  return parse_header(text, size, source);
}

// --- Writing ---

// A new file in the target's folder, gone again unless it is renamed onto the target.
class Temporary {
 public:
  Temporary(const std::filesystem::path& target, std::string_view source) : target_(target), source_(source) {
    static std::atomic<unsigned> counter = 0;
    do {  // another process of the same number may have died here
      // Not made from the target's name, which may have all the letters that a name can have.
      path_ =
          target.parent_path() / (".frn-" + std::to_string(getpid()) + "-" + std::to_string(counter++) + ".partial");
      descriptor_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    } while (descriptor_ < 0 && errno == EEXIST);
    if (descriptor_ < 0) fail_system(source_, "cannot write");
  }
  ~Temporary() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!in_place_) unlink(path_.c_str());
  }
  Temporary(const Temporary&) = delete;
  Temporary& operator=(const Temporary&) = delete;

  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t count = ::write(descriptor_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) fail_system(source_, "cannot write");
      bytes = bytes.subspan(static_cast<size_t>(count));
    }
  }

  void put_in_place() {
    if (fsync(descriptor_) != 0 || close(std::exchange(descriptor_, -1)) != 0) fail_system(source_, "cannot write");
    if (rename(path_.c_str(), target_.c_str()) != 0) fail_system(source_, "cannot write");
    in_place_ = true;
    sync_folder();
  }

 private:
  // So that the new name outlives a power cut. Not every file system can, and the file is whole either way.
  void sync_folder() const {
    const auto folder = target_.parent_path();
    const int descriptor = open(folder.empty() ? "." : folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0) return;
    fsync(descriptor);
    close(descriptor);
  }

  std::filesystem::path target_;
  std::string source_;
  std::filesystem::path path_;
  int descriptor_ = -1;
  bool in_place_ = false;
};

}  // namespace

Header parse(std::span<const std::byte> file, std::string_view source) {
  const auto length = header_length(file.first(std::min(file.size(), kLengthBytes)), file.size(), source);
  const auto text = file.subspan(kLengthBytes, length);
  return parse_header({reinterpret_cast<const char*>(text.data()), text.size()}, file.size(), source);
}

// O_NONBLOCK: a pipe is refused below, not waited for.
File::File(const std::filesystem::path& path)
    : source_(path.string()), descriptor_(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK)) {
  if (descriptor_ < 0) fail_system(source_, "cannot open");
  try {
    header_ = read_header(descriptor_, source_);
  } catch (...) {
    close(descriptor_);
    throw;
  }
}

File::~File() { close(descriptor_); }

void File::read(const std::string& name, std::span<std::byte> out) const {
  const auto found = header_.entries.find(name);
  if (found == header_.entries.end()) fail(source_, "it has no tensor " + in_quotes(name));
  const Entry& entry = found->second;
  if (out.size() != entry.byte_count()) {
    fail(source_, "tensor " + in_quotes(name) + ": it has " + std::to_string(entry.byte_count()) +
                      " bytes but the memory for it " + std::to_string(out.size()));
  }
  read_at(descriptor_, header_.data_begin + entry.begin, out, source_);
  // In C++ a bool of another value is undefined behaviour.
  if (entry.dtype == Dtype::kBool &&
      std::any_of(out.begin(), out.end(), [](std::byte b) { return b > std::byte{1}; })) {
    fail(source_, "tensor " + in_quotes(name) + ": bytes of a BOOL must be 0 or 1 but one is not");
  }
}

std::string to_bytes(const TensorViews& tensors, const Metadata& metadata) {
  std::string out = opening_bytes(tensors, metadata, "the buffer");
  for (const auto* tensor : in_file_order(tensors)) {
    const auto bytes = tensor->second.bytes;
    out.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  }
  return out;
}

void write(const std::filesystem::path& path, const TensorViews& tensors, const Metadata& metadata) {
  const std::string source = path.string();
  std::error_code error;
  const auto target = std::filesystem::weakly_canonical(path, error);
  if (error) fail(source, "cannot write: " + error.message());
  const auto status = std::filesystem::status(target, error);
  if (std::filesystem::exists(status) && !std::filesystem::is_regular_file(status)) {
    fail(source, "cannot write: it must be a file but is a folder or a device");  // a rename would replace the device
  }
  const std::string opening = opening_bytes(tensors, metadata, source);
  Temporary file(target, source);
  file.write(std::as_bytes(std::span(opening)));
  for (const auto* tensor : in_file_order(tensors)) file.write(tensor->second.bytes);
  file.put_in_place();
}

}  // namespace frn::safetensors
