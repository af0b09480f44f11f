// Event files that TensorBoard shows: TFRecord frames (length, masked CRC-32C, bytes, masked CRC-32C) around protobuf
// messages `Event` (protobuf.h), of which scalars need five fields: neither library is needed.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace frn::tensorboard {

uint32_t crc32c(std::string_view bytes);
// As TFRecord stores it: a CRC over data that holds CRCs would be weak otherwise.
uint32_t masked_crc32c(std::string_view bytes);
// One record of a TFRecord file.
std::string framed(std::string_view record);

// One new file in the folder of a run. Every failure is one frn::Error "[tensorboard] path: ...".
class EventFile {
 public:
  // Makes the folder when it is missing. A run that goes on from a checkpoint gives its step: TensorBoard then forgets
  // what earlier files say of later steps.
  explicit EventFile(const std::filesystem::path& folder, std::optional<int64_t> resumed_after = std::nullopt);
  ~EventFile();  // flushes; a failure is only seen by flush()
  EventFile(const EventFile&) = delete;
  EventFile& operator=(const EventFile&) = delete;

  // A point of the curve `tag` ("validation/precision_at_1": what stands before the slash is the group).
  void scalar(std::string_view tag, double value, int64_t step);
  // Scalars are kept in memory until this is called, or 64 KiB of them have come together.
  void flush();

  const std::filesystem::path& path() const { return path_; }

 private:
  void add(std::string_view event);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::string waiting_;
};

}  // namespace frn::tensorboard
