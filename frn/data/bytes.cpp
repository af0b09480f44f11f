#include "frn/data/bytes.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include "frn/core/descriptor.h"
#include "frn/core/error.h"

namespace frn::data {
namespace {

struct Inflater {
  z_stream stream{};
  ~Inflater() { inflateEnd(&stream); }
};

}  // namespace

void fail_file(std::string_view operation, const std::filesystem::path& path, std::string_view sentence) {
  throw Error(operation, path.string() + ": " + std::string(sentence));
}

Bytes read_file(const std::filesystem::path& path, std::string_view operation, uint64_t limit) {
  const auto fail_system = [&](const char* what) {
    fail_file(operation, path, std::string(what) + ": " + std::strerror(errno));
  };
  // O_NONBLOCK: a pipe is refused below, not waited for.
  const Descriptor file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status {};
  if (file.number() < 0 || fstat(file.number(), &status) != 0) fail_system("cannot open");
  if (!S_ISREG(status.st_mode)) fail_file(operation, path, "it must be a file but is a folder or a device");
  const auto size = static_cast<uint64_t>(status.st_size);
  if (size > limit) {
    fail_file(operation, path,
              "it must have at most " + std::to_string(limit) + " bytes but has " + std::to_string(size));
  }
  Bytes bytes(size);
  for (auto rest = bytes.span(); !rest.empty();) {
    const ssize_t count = read(file.number(), rest.data(), rest.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) fail_system("cannot read");
    if (count == 0) fail_file(operation, path, "it became shorter while it was read; try again once it is written");
    rest = rest.subspan(static_cast<size_t>(count));
  }
  return bytes;
}

std::vector<std::string> read_lines(const std::filesystem::path& path, std::string_view operation, uint64_t limit) {
  const Bytes bytes = read_file(path, operation, limit);
  std::vector<std::string> lines;
  std::string line;
  for (const uint8_t byte : bytes.span()) {
    if (byte == '\n') {
      if (!line.empty()) lines.push_back(std::move(line));
      line.clear();
    } else if (byte != '\r') {
      line += static_cast<char>(byte);
    }
  }
  if (!line.empty()) lines.push_back(std::move(line));
  return lines;
}

bool is_gzip(std::span<const uint8_t> bytes) { return bytes.size() >= 2 && bytes[0] == 0x1f && bytes[1] == 0x8b; }

Unpacked gunzip(std::span<const uint8_t> packed, std::span<uint8_t> out, std::string_view source) {
  constexpr int kGzipOnly = 16 + MAX_WBITS;
  constexpr size_t kMost = std::numeric_limits<uInt>::max();
  const auto fail = [&](std::string_view sentence) { fail_file("gzip", source, sentence); };
  Inflater inflater;
  auto& stream = inflater.stream;
  if (inflateInit2(&stream, kGzipOnly) != Z_OK) fail("cannot start to unpack; is there memory left?");
  stream.next_in = const_cast<uint8_t*>(packed.data());  // zlib's type; it only reads
  stream.next_out = out.data();
  size_t in_left = packed.size();
  size_t out_left = out.size();
  while (true) {
    if (stream.avail_in == 0) {
      stream.avail_in = static_cast<uInt>(std::min(in_left, kMost));
      in_left -= stream.avail_in;
    }
    if (stream.avail_out == 0) {
      stream.avail_out = static_cast<uInt>(std::min(out_left, kMost));
      out_left -= stream.avail_out;
    }
    const int status = inflate(&stream, Z_NO_FLUSH);
    const size_t count = out.size() - out_left - stream.avail_out;
    if (status == Z_STREAM_END) return {count, true};
    if (status == Z_DATA_ERROR) fail("its packed data are damaged; fetch it again");
    if (stream.avail_out == 0 && out_left == 0) return {count, false};
    if (stream.avail_in == 0 && in_left == 0) fail("it ends too early; fetch it again");
    if (status != Z_OK && status != Z_BUF_ERROR) fail("cannot unpack; is there memory left?");
  }
}

}  // namespace frn::data
