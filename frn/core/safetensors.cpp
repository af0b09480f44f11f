#include "frn/core/safetensors.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "frn/core/safetensors_header.h"
#include "frn/core/whole_file.h"

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
  const std::string opening = opening_bytes(tensors, metadata, path.string());
  WholeFile file(path, "safetensors");
  file.write(opening);
  for (const auto* tensor : in_file_order(tensors)) file.write(tensor->second.bytes);
  file.put_in_place();
}

}  // namespace frn::safetensors
