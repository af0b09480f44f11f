#include "frn/core/safetensors_header.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "frn/core/error.h"
#include "frn/core/text.h"

namespace frn::safetensors {
namespace {

static_assert(std::endian::native == std::endian::little, "the format is little-endian and bytes are not swapped here");

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr uint64_t kLargestHeader = 100'000'000;  // the reference implementation's limit
constexpr size_t kMostDimensions = 64;            // torch's operators take no more
constexpr size_t kLongestQuote = 120;

struct DtypeRow {
  std::string_view name;
  size_t size;
};
constexpr std::array<DtypeRow, 10> kDtypes{{{"BOOL", 1},
                                            {"U8", 1},
                                            {"I8", 1},
                                            {"I16", 2},
                                            {"F16", 2},
                                            {"BF16", 2},
                                            {"I32", 4},
                                            {"F32", 4},
                                            {"F64", 8},
                                            {"I64", 8}}};

std::string numbers(std::span<const int64_t> values) {
  std::string out = "[";
  for (const auto value : values) out += (out.size() > 1 ? ", " : "") + std::to_string(value);
  return out + "]";
}

std::optional<Dtype> find_dtype(std::string_view name) {
  for (size_t i = 0; i < kDtypes.size(); ++i) {
    if (kDtypes[i].name == name) return static_cast<Dtype>(i);
  }
  return std::nullopt;
}

// None when it overflows. An empty dimension does not excuse the others: torch multiplies them into strides.
std::optional<uint64_t> byte_count_of(Dtype dtype, std::span<const int64_t> shape) {
  int64_t bytes = static_cast<int64_t>(dtype_size(dtype));
  bool empty = false;
  for (const auto size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, std::max<int64_t>(size, 1), &bytes)) return std::nullopt;
    empty = empty || size == 0;
  }
  return empty ? 0 : static_cast<uint64_t>(bytes);
}

// Takes the header as the JSON parser meets it. A tree in between would lose duplicate names and cost memory for
// nesting that no header has.
class HeaderReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  HeaderReader(std::string_view source, Header& header) : source_(source), header_(header) {}

  bool null() override { wrong("null"); }
  bool boolean(bool) override { wrong("true or false"); }
  bool number_integer(int64_t) override { wrong("a negative number"); }
  bool number_float(double, const std::string&) override { wrong("a number that is too large or not whole"); }
  bool binary(nlohmann::json::binary_t&) override { wrong("binary data"); }

  bool number_unsigned(uint64_t value) override {
    if (place_ == Place::kOffsets) {
      if (offsets_.size() == 2) fail_tensor("data_offsets must be two numbers but are more");
      offsets_.push_back(value);
      return true;
    }
    if (place_ != Place::kShape) wrong("a number");
    if (value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) wrong("a number that is too large");
    if (shape_.size() == kMostDimensions) {
      fail_tensor("its shape must have at most " + std::to_string(kMostDimensions) + " dimensions but has more");
    }
    shape_.push_back(static_cast<int64_t>(value));
    return true;
  }

  bool string(std::string& value) override {
    if (place_ == Place::kMetadata) {
      const bool first = header_.metadata.emplace(field_, std::move(value)).second;
      if (!first) fail(source_, std::string(kMetadataKey) + " names " + in_quotes(field_) + " twice");
      return true;
    }
    if (place_ != Place::kTensor || field_ != "dtype") wrong("a string");
    dtype_ = find_dtype(value);
    if (!dtype_) fail_tensor("its dtype must be one of " + known_dtypes() + " but is " + in_quotes(value));
    return true;
  }

  bool start_object(size_t) override {
    if (place_ == Place::kFile) {
      place_ = Place::kTop;
    } else if (place_ == Place::kTop && name_ == kMetadataKey) {
      if (std::exchange(metadata_seen_, true)) fail(source_, std::string(kMetadataKey) + " stands twice");
      place_ = Place::kMetadata;
    } else if (place_ == Place::kTop) {
      if (header_.entries.contains(name_)) fail_tensor("it stands twice");
      fields_seen_.clear();
      place_ = Place::kTensor;
    } else {
      wrong("an object");
    }
    return true;
  }

  bool end_object() override {
    if (place_ == Place::kTensor) add_tensor();
    place_ = place_ == Place::kTop ? Place::kFile : Place::kTop;
    return true;
  }

  bool key(std::string& name) override {
    if (place_ == Place::kTop) {
      name_ = std::move(name);
      return true;
    }
    field_ = std::move(name);
    if (place_ == Place::kTensor) check_field();
    return true;
  }

  bool start_array(size_t) override {
    if (place_ != Place::kTensor || field_ == "dtype") wrong("a list");
    if (field_ == "shape") {
      shape_.clear();
      place_ = Place::kShape;
    } else {
      offsets_.clear();
      place_ = Place::kOffsets;
    }
    return true;
  }

  bool end_array() override {
    place_ = Place::kTensor;
    return true;
  }

  // The parser's own words would repeat the last token, which may be most of the file.
  bool parse_error(size_t position, const std::string&, const nlohmann::json::exception&) override {
    fail(source_, "the header must be JSON in UTF-8 but is not at its byte " + std::to_string(position) +
                      "; the file is damaged or of another format");
  }

 private:
  enum class Place : uint8_t { kFile, kTop, kMetadata, kTensor, kShape, kOffsets };

  static std::string known_dtypes() {
    std::array<std::string_view, kDtypes.size()> names;
    std::transform(kDtypes.begin(), kDtypes.end(), names.begin(), [](const DtypeRow& row) { return row.name; });
    return join(names);
  }

  [[noreturn]] void fail_tensor(const std::string& sentence) const {
    fail(source_, "tensor " + in_quotes(name_) + ": " + sentence);
  }

  [[noreturn]] void wrong(std::string_view got) const {
    const std::string but = " but is " + std::string(got);
    switch (place_) {
      case Place::kFile:
        fail(source_, "the header must be a JSON object" + but);
      case Place::kMetadata:
        fail(source_, std::string(kMetadataKey) + ": " + in_quotes(field_) + " must be a string" + but);
      case Place::kTop:
        if (name_ == kMetadataKey) fail(source_, std::string(kMetadataKey) + " must be an object of strings" + but);
        fail_tensor("it must be an object with dtype, shape and data_offsets" + but);
      case Place::kTensor:
        fail_tensor(field_ + (field_ == "dtype" ? " must be a string" : " must be a list of whole numbers") + but);
      default:
        fail_tensor(field_ + " must hold whole numbers from 0 to 2^63-1 but holds " + std::string(got));
    }
  }

  void check_field() {
    if (field_ != "dtype" && field_ != "shape" && field_ != "data_offsets") {
      fail_tensor("it must have dtype, shape and data_offsets but has " + in_quotes(field_));
    }
    if (std::find(fields_seen_.begin(), fields_seen_.end(), field_) != fields_seen_.end()) {
      fail_tensor(field_ + " stands twice");
    }
    fields_seen_.push_back(field_);
  }

  void add_tensor() {
    if (fields_seen_.size() != 3) fail_tensor("it must have dtype, shape and data_offsets but lacks one of them");
    if (offsets_.size() != 2) fail_tensor("data_offsets must be two numbers but are fewer");
    const auto bytes = byte_count_of(*dtype_, shape_);
    if (!bytes) fail_tensor("its shape " + numbers(shape_) + " is larger than any memory");
    if (offsets_[0] > offsets_[1] || offsets_[1] - offsets_[0] != *bytes) {
      fail_tensor(std::string(dtype_name(*dtype_)) + " of shape " + numbers(shape_) + " takes " +
                  std::to_string(*bytes) + " bytes but data_offsets are " + std::to_string(offsets_[0]) + " and " +
                  std::to_string(offsets_[1]));
    }
    header_.entries.emplace(name_, Entry{*dtype_, shape_, offsets_[0], offsets_[1]});
  }

  std::string source_;
  Header& header_;
  Place place_ = Place::kFile;
  std::string name_;   // the last key of the header: a tensor or the metadata
  std::string field_;  // the last key inside that
  bool metadata_seen_ = false;
  std::vector<std::string> fields_seen_;
  std::optional<Dtype> dtype_;
  std::vector<int64_t> shape_;
  std::vector<uint64_t> offsets_;
};

void check_coverage(const Header& header, uint64_t data_size, std::string_view source) {
  std::vector<std::pair<const std::string*, const Entry*>> in_order;
  for (const auto& [name, entry] : header.entries) in_order.emplace_back(&name, &entry);
  std::sort(in_order.begin(), in_order.end(), [](const auto& a, const auto& b) {
    return std::pair(a.second->begin, a.second->end) < std::pair(b.second->begin, b.second->end);
  });
  uint64_t covered = 0;
  for (const auto& [name, entry] : in_order) {
    const std::string who = "tensor " + in_quotes(*name) + ": ";
    if (entry->end > data_size) {
      fail(source, who + "it ends at byte " + std::to_string(entry->end) + " of the data, which has only " +
                       std::to_string(data_size) + "; the file is truncated or damaged");
    }
    if (entry->begin != covered) {
      fail(source, who + "it starts at byte " + std::to_string(entry->begin) + " of the data but must start at " +
                       std::to_string(covered) + ", where the one before ends: tensors must not " +
                       (entry->begin < covered ? "overlap" : "leave holes"));
    }
    covered = entry->end;
  }
  if (covered != data_size) {
    fail(source, "the data must end with the last tensor at byte " + std::to_string(covered) + " but has " +
                     std::to_string(data_size) + "; the file has something appended or is damaged");
  }
}

std::string json_string(const std::string& text, std::string_view source) {
  try {
    return nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    fail(source, "names and metadata must be UTF-8 but " + in_quotes(text) + " is not");
  }
}

std::string entry_text(const std::string& name, const TensorView& tensor, uint64_t begin, std::string_view source) {
  if (name == kMetadataKey) fail(source, "a tensor must not be called " + in_quotes(name));
  const auto bytes = byte_count_of(tensor.dtype, tensor.shape);
  if (bytes != tensor.bytes.size() || tensor.shape.size() > kMostDimensions) {
    fail(source, "tensor " + in_quotes(name) + ": " + std::string(dtype_name(tensor.dtype)) + " of shape " +
                     numbers(tensor.shape) + " does not fit its " + std::to_string(tensor.bytes.size()) + " bytes");
  }
  std::string shape;
  for (const auto size : tensor.shape) shape += (shape.empty() ? "" : ",") + std::to_string(size);
  return json_string(name, source) + R"(:{"dtype":")" + std::string(dtype_name(tensor.dtype)) + R"(","shape":[)" +
         shape + R"(],"data_offsets":[)" + std::to_string(begin) + "," + std::to_string(begin + tensor.bytes.size()) +
         "]}";
}

std::string metadata_text(const Metadata& metadata, std::string_view source) {
  std::string out;
  for (const auto& [key, value] : metadata) {
    out += (out.empty() ? "" : ",") + json_string(key, source) + ":" + json_string(value, source);
  }
  return "\"" + std::string(kMetadataKey) + "\":{" + out + "}";
}

}  // namespace

std::string_view dtype_name(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].name; }
size_t dtype_size(Dtype dtype) { return kDtypes[static_cast<size_t>(dtype)].size; }

[[noreturn]] void fail(std::string_view source, const std::string& sentence) {
  throw Error("safetensors", std::string(source) + ": " + sentence);
}

// Names come from the file: a message shows neither megabytes of one nor what would steer a terminal.
std::string in_quotes(std::string_view name) {
  std::string shown(name.substr(0, kLongestQuote));
  if (name.size() > kLongestQuote) {
    while (!shown.empty() && (static_cast<unsigned char>(name[shown.size()]) & 0xC0) == 0x80) shown.pop_back();
    shown += "...";
  }
  for (char& c : shown) c = static_cast<unsigned char>(c) < 0x20 || c == 0x7F ? '?' : c;
  return "'" + shown + "'";
}

uint64_t header_length(std::span<const std::byte> first, uint64_t file_size, std::string_view source) {
  if (first.size() < kLengthBytes) {
    fail(source, "a safetensors file must have at least 8 bytes but this has " + std::to_string(file_size) +
                     "; it is truncated or of another format");
  }
  uint64_t length = 0;
  std::memcpy(&length, first.data(), kLengthBytes);
  const uint64_t most = std::min(kLargestHeader, file_size - kLengthBytes);
  if (length <= most) return length;
  fail(source, "the header must have at most " + std::to_string(most) +
                   (most == kLargestHeader ? " bytes" : " bytes, to the end of the file,") + " but claims " +
                   std::to_string(length) + "; the file is truncated or of another format");
}

Header parse_header(std::string_view text, uint64_t file_size, std::string_view source) {
  // The JSON parser would skip a byte-order mark and take a zero byte for the end.
  if (!text.starts_with('{')) fail(source, "the header must be a JSON object and start with '{'");
  if (text.find('\0') != std::string_view::npos) fail(source, "the header must be JSON but has a zero byte");
  Header header;
  HeaderReader reader(source, header);
  nlohmann::json::sax_parse(text, &reader);
  header.data_begin = kLengthBytes + text.size();
  check_coverage(header, file_size - header.data_begin, source);
  return header;
}

// Aligned when they follow each other, as the header is a multiple of 8 bytes: the largest types come first.
std::vector<const TensorViews::value_type*> in_file_order(const TensorViews& tensors) {
  std::vector<const TensorViews::value_type*> order;
  for (const auto& tensor : tensors) order.push_back(&tensor);
  std::stable_sort(order.begin(), order.end(),
                   [](const auto* a, const auto* b) { return a->second.dtype > b->second.dtype; });
  return order;
}

std::string opening_bytes(const TensorViews& tensors, const Metadata& metadata, std::string_view source) {
  std::string text = "{";
  if (!metadata.empty()) text += metadata_text(metadata, source);
  uint64_t offset = 0;
  for (const auto* tensor : in_file_order(tensors)) {
    if (text.size() > 1) text += ',';
    text += entry_text(tensor->first, tensor->second, offset, source);
    offset += tensor->second.bytes.size();
  }
  text += '}';
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const uint64_t length = text.size();
  if (length > kLargestHeader) fail(source, "names and metadata must stay below 100 MB; write several files");
  std::string opening(kLengthBytes, '\0');
  std::memcpy(opening.data(), &length, kLengthBytes);
  return opening + text;
}

}  // namespace frn::safetensors
