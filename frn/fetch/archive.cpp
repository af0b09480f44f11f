#include "frn/fetch/archive.h"

#include <archive.h>
#include <archive_entry.h>
#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <exception>
#include <fstream>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "frn/core/error.h"

namespace frn::fetch {
namespace {

constexpr size_t kBuffer = size_t{1} << 18;

[[noreturn]] void fail(const std::filesystem::path& archive, const std::string& sentence) {
  throw Error("data", archive.string() + ": " + sentence);
}

// What is inside a gzip file. By zlib itself: libarchive's reader (3.6) does not look at the checksum at the end.
class GzipFile {
 public:
  explicit GzipFile(const std::filesystem::path& path)
      : path_(path), file_(gzopen(path.c_str(), "rb"), &gzclose), buffer_(kBuffer) {
    if (!file_) fail(path_, std::string("cannot open: ") + std::strerror(errno));
  }

  // The next bytes, valid until the next call; none at the end, where zlib has found the checksum right.
  std::span<const char> next() {
    const int count = gzread(file_.get(), buffer_.data(), static_cast<unsigned>(buffer_.size()));
    int code = Z_OK;
    const char* const reason = gzerror(file_.get(), &code);
    if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      fail(path_, std::string("it is damaged or cut off (") + (code == Z_ERRNO ? std::strerror(errno) : reason) +
                      "); fetch it again");
    }
    if (gzdirect(file_.get()) != 0) fail(path_, "it must be a .tar.gz but is not gzipped");
    ended_ = count == 0;
    length_ += count;
    return std::span(buffer_).first(static_cast<size_t>(count));
  }

  bool ended() const { return ended_; }
  int64_t length() const { return length_; }  // of what next() gave so far

 private:
  std::filesystem::path path_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
  std::vector<char> buffer_;
  int64_t length_ = 0;
  bool ended_ = false;
};

bool leads_out(const std::filesystem::path& name) {
  return name.empty() || name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end();
}

class Unpacker {
 public:
  Unpacker(const std::filesystem::path& archive, std::filesystem::path folder, uint64_t limit)
      : source_(archive),
        folder_(std::move(folder)),
        left_(limit),
        gzip_(archive),
        tar_(archive_read_new(), &archive_read_free) {
    if (!tar_ || archive_read_support_format_tar(tar_.get()) != ARCHIVE_OK) fail(source_, "libarchive does not start");
    check(archive_read_open(tar_.get(), this, nullptr, &Unpacker::on_read, nullptr));
  }

  void run() {
    archive_entry* entry = nullptr;
    int code = ARCHIVE_OK;
    while ((code = archive_read_next_header(tar_.get(), &entry)) != ARCHIVE_EOF) {
      check(code);
      take(entry);
    }
    // libarchive takes an archive that ends where a header could begin, without the mark of its end, for a whole one.
    if (archive_read_header_position(tar_.get()) == gzip_.length()) fail_early();
    while (!gzip_.next().empty()) {  // the checksum of all of it stands at the very end
    }
  }

 private:
  // libarchive is C: what is thrown here must not go through it. check() throws it again.
  static la_ssize_t on_read(archive*, void* unpacker, const void** bytes) noexcept {
    auto* const self = static_cast<Unpacker*>(unpacker);
    try {
      const auto block = self->gzip_.next();
      *bytes = block.data();
      return static_cast<la_ssize_t>(block.size());
    } catch (...) {
      self->thrown_ = std::current_exception();
      return ARCHIVE_FATAL;
    }
  }

  // What libarchive's functions give: a length, ARCHIVE_OK, or a failure. A warning is about owners and the like.
  void check(la_ssize_t code) const {
    if (thrown_) std::rethrow_exception(thrown_);
    if (code >= ARCHIVE_OK || code == ARCHIVE_WARN) return;
    if (gzip_.ended() && gzip_.length() > 0) fail_early();
    fail(source_, "it is not a tar archive, or is damaged; fetch it again");
  }

  [[noreturn]] void fail_early() const { fail(source_, "it ends too early; fetch it again"); }

  void take(archive_entry* entry) {
    const char* const text = archive_entry_pathname(entry);
    const std::filesystem::path name(text == nullptr ? "" : text);
    const auto type = archive_entry_filetype(entry);
    const bool is_file = type == AE_IFREG && archive_entry_hardlink(entry) == nullptr;
    if (!is_file && type != AE_IFDIR)
      fail(source_, "'" + name.string() + "' is neither a file nor a folder; such archives are not unpacked");
    if (leads_out(name))
      fail(source_, "'" + name.string() + "' leads out of the folder; such archives are not unpacked");
    if (is_file)
      write_file(folder_ / name, static_cast<uint64_t>(archive_entry_size(entry)));
    else
      make_folder(folder_ / name);
  }

  void make_folder(const std::filesystem::path& path) const {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) fail(source_, "cannot make the folder " + path.string() + ": " + error.message());
  }

  void write_file(const std::filesystem::path& path, uint64_t size) {
    if (size > left_) fail(source_, "its files are larger than the data set; such archives are not unpacked");
    left_ -= size;
    make_folder(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    std::vector<char> buffer(kBuffer);
    uint64_t done = 0;
    while (out) {  // left at once, while errno tells why
      const auto count = archive_read_data(tar_.get(), buffer.data(), buffer.size());
      check(count);
      if (count <= 0) break;
      done += static_cast<uint64_t>(count);
      if (done > size) break;  // a sparse file that lies about its length
      out.write(buffer.data(), count);
    }
    if (out) out.close();
    if (!out) {
      fail(source_, "cannot write " + path.string() + ": " + std::strerror(errno) + "; once that is solved, try again");
    }
    if (done != size) fail(source_, "the length of " + path.string() + " is not what its header says");
  }

  std::filesystem::path source_;
  std::filesystem::path folder_;
  uint64_t left_;
  GzipFile gzip_;
  std::exception_ptr thrown_;
  std::unique_ptr<archive, int (*)(archive*)> tar_;
};

}  // namespace

void unpack_tar_gz(const std::filesystem::path& archive, const std::filesystem::path& folder, uint64_t limit) {
  Unpacker(archive, folder, limit).run();
}

}  // namespace frn::fetch
