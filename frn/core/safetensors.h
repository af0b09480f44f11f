// The safetensors format, without torch: an 8-byte little-endian length, a JSON header of that length that names
// tensors (type, shape, place) and may carry strings about the file, then the tensors' bytes in row-major order.
//
// A file is taken for hostile: the whole header is checked before memory is taken for anything that it claims. Every
// failure is one frn::Error that names the file and the tensor.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace frn::safetensors {

// In the order of the reference implementation, which writes the last of them first, so that every tensor is aligned.
enum class Dtype : uint8_t { kBool, kU8, kI8, kI16, kF16, kBF16, kI32, kF32, kF64, kI64 };

std::string_view dtype_name(Dtype dtype);  // as in the header: "F32"
size_t dtype_size(Dtype dtype);            // in bytes

using Metadata = std::map<std::string, std::string>;

// Where a tensor stands. The bytes [begin, end) count from the first one after the header.
struct Entry {
  Dtype dtype;
  std::vector<int64_t> shape;
  uint64_t begin;
  uint64_t end;

  uint64_t byte_count() const { return end - begin; }
  bool operator==(const Entry&) const = default;
};

struct Header {
  std::map<std::string, Entry> entries;
  Metadata metadata;
  uint64_t data_begin = 0;  // of the file: where the tensors' bytes start

  bool operator==(const Header&) const = default;
};

// Checks the header of a whole file in memory: entries cover the data without a hole, an overlap or a rest.
Header parse(std::span<const std::byte> file, std::string_view source = "the buffer");

// A file open for reading. The header is checked once, here; tensors are read when they are asked for.
class File {
 public:
  explicit File(const std::filesystem::path& path);
  ~File();
  File(const File&) = delete;
  File& operator=(const File&) = delete;

  const Header& header() const { return header_; }
  // Fills `out`, which must have the tensor's byte_count().
  void read(const std::string& name, std::span<std::byte> out) const;

 private:
  std::string source_;
  int descriptor_;
  Header header_;
};

// A tensor to write; the bytes belong to the caller.
struct TensorView {
  Dtype dtype;
  std::vector<int64_t> shape;
  std::span<const std::byte> bytes;
};
using TensorViews = std::map<std::string, TensorView>;

// The file as bytes: those that the reference implementation writes for the same tensors. Empty metadata is left out.
std::string to_bytes(const TensorViews& tensors, const Metadata& metadata = {});

// Writes beside the file, to the disk, and renames into place: on failure the file that was there remains. A link is
// followed.
void write(const std::filesystem::path& path, const TensorViews& tensors, const Metadata& metadata = {});

}  // namespace frn::safetensors
