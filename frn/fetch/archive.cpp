#include "frn/fetch/archive.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frn/core/error.h"

namespace frn::fetch {
namespace {

constexpr size_t kBlock = 512;
constexpr uint64_t kLongestExtension = 1 << 16;

// A tar header, by POSIX.1-2001 (ustar): where its fields stand.
using Block = std::array<char, kBlock>;
struct Field {
  size_t begin;
  size_t length;
};
constexpr Field kName{0, 100};
constexpr Field kSize{124, 12};
constexpr Field kChecksum{148, 8};
constexpr Field kType{156, 1};
constexpr Field kMagic{257, 5};
constexpr Field kPrefix{345, 155};

std::string_view raw(const Block& block, Field field) { return {block.data() + field.begin, field.length}; }

std::string_view text(const Block& block, Field field) {
  const auto all = raw(block, field);
  return all.substr(0, std::min(all.find('\0'), all.size()));
}

std::optional<uint64_t> octal(const Block& block, Field field) {
  auto digits = text(block, field);
  while (!digits.empty() && digits.front() == ' ') digits.remove_prefix(1);
  while (!digits.empty() && digits.back() == ' ') digits.remove_suffix(1);
  if (digits.empty()) return std::nullopt;
  uint64_t value = 0;
  for (const char c : digits) {  // at most 12 digits: no overflow
    if (c < '0' || c > '7') return std::nullopt;
    value = value * 8 + static_cast<uint64_t>(c - '0');
  }
  return value;
}

uint64_t checksum_of(const Block& block) {
  uint64_t sum = 0;
  for (size_t i = 0; i < kBlock; ++i) {
    const bool own = i >= kChecksum.begin && i < kChecksum.begin + kChecksum.length;  // counted as spaces
    sum += own ? ' ' : static_cast<unsigned char>(block[i]);
  }
  return sum;
}

bool leads_out(const std::filesystem::path& name) {
  return name.empty() || name.is_absolute() || std::find(name.begin(), name.end(), "..") != name.end();
}

class Unpacker {
 public:
  Unpacker(const std::filesystem::path& archive, std::filesystem::path folder, uint64_t limit)
      : source_(archive.string()),
        folder_(std::move(folder)),
        left_(limit),
        file_(gzopen(archive.c_str(), "rb"), &gzclose) {
    if (!file_) fail(std::string("cannot open: ") + std::strerror(errno));
  }

  void run() {
    Block block;
    while (next(block)) {
      if (std::all_of(block.begin(), block.end(), [](char c) { return c == '\0'; })) {
        read_to_end();
        return;
      }
      take_entry(block);
    }
    fail("it ends too early; fetch it again");
  }

 private:
  [[noreturn]] void fail(const std::string& sentence) const { throw Error("data", source_ + ": " + sentence); }

  size_t read(std::span<char> out) {
    const int count = gzread(file_.get(), out.data(), static_cast<unsigned>(out.size()));
    int code = Z_OK;
    const char* const reason = gzerror(file_.get(), &code);
    if (count < 0 || (code != Z_OK && code != Z_STREAM_END)) {
      fail(std::string("it is damaged or cut off (") + (code == Z_ERRNO ? std::strerror(errno) : reason) +
           "); fetch it again");
    }
    return static_cast<size_t>(count);
  }

  bool next(Block& block) {
    const size_t count = read(block);
    if (gzdirect(file_.get()) != 0) fail("it must be a .tar.gz but is not gzipped");
    if (count != 0 && count != kBlock) fail("it ends too early; fetch it again");
    return count == kBlock;
  }

  // The checksum of all of it stands at the very end.
  void read_to_end() {
    std::array<char, 1 << 16> rest;
    while (read(rest) > 0) {
    }
  }

  void take_entry(const Block& block) {
    const auto size = octal(block, kSize);
    if (!size || octal(block, kChecksum) != checksum_of(block))
      fail("it is not a tar archive, or is damaged; fetch it again");
    std::filesystem::path name(std::string(text(block, kName)));
    if (raw(block, kMagic) == "ustar" && !text(block, kPrefix).empty()) name = std::string(text(block, kPrefix)) / name;
    switch (raw(block, kType)[0]) {
      case 'x':
      case 'g':
        check_extension(read_text(*size));
        return;
      case '5':
        make_folder(inside(name));
        return;
      case '0':
      case '\0':
        write_file(inside(name), *size);
        return;
      default:
        fail("'" + name.string() + "' is neither a file nor a folder; such archives are not unpacked");
    }
  }

  std::filesystem::path inside(const std::filesystem::path& name) const {
    if (leads_out(name)) fail("'" + name.string() + "' leads out of the folder; such archives are not unpacked");
    return folder_ / name;
  }

  std::string read_text(uint64_t size) {
    if (size > kLongestExtension)
      fail("it has a header of " + std::to_string(size) + " bytes; such archives are not unpacked");
    std::string out((size + kBlock - 1) / kBlock * kBlock, '\0');
    if (read(out) != out.size()) fail("it ends too early; fetch it again");
    out.resize(size);
    return out;
  }

  // Times and owners do not matter here. What would change the next entry's name or size does, and no archive of a data
  // set needs it.
  void check_extension(const std::string& records) const {
    for (const char* key : {" path=", " linkpath=", " size="}) {
      if (records.find(key) != std::string::npos) fail("it uses long names or sizes; such archives are not unpacked");
    }
  }

  void make_folder(const std::filesystem::path& path) const {
    std::error_code error;
    std::filesystem::create_directories(path, error);
    if (error) fail("cannot make the folder " + path.string() + ": " + error.message());
  }

  void write_file(const std::filesystem::path& path, uint64_t size) {
    if (size > left_) fail("its files are larger than the data set; such archives are not unpacked");
    left_ -= size;
    make_folder(path.parent_path());
    std::ofstream out(path, std::ios::binary);
    std::vector<char> buffer(size_t{1} << 18);
    const uint64_t padded = (size + kBlock - 1) / kBlock * kBlock;
    for (uint64_t done = 0; done < padded;) {
      const auto count = read(std::span(buffer).first(std::min<uint64_t>(buffer.size(), padded - done)));
      if (count == 0) fail("it ends too early; fetch it again");
      const uint64_t of_file = done < size ? std::min<uint64_t>(count, size - done) : 0;
      out.write(buffer.data(), static_cast<std::streamsize>(of_file));
      if (!out) break;  // at once, while errno tells why
      done += count;
    }
    if (out) out.close();
    if (!out) {
      fail("cannot write " + path.string() + ": " + std::strerror(errno) + "; once that is solved, try again");
    }
  }

  std::string source_;
  std::filesystem::path folder_;
  uint64_t left_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace

void unpack_tar_gz(const std::filesystem::path& archive, const std::filesystem::path& folder, uint64_t limit) {
  Unpacker(archive, folder, limit).run();
}

}  // namespace frn::fetch
