// CIFAR-10 and CIFAR-100 in their binary form: records of labels (one byte; for CIFAR-100 a coarse and a fine one) and
// 3 planes of 32x32 bytes.
#include <algorithm>
#include <utility>

#include "frn/data/kinds.h"
#include "frn/data/pixel_set.h"

namespace frn::data {
namespace {

constexpr Size kSize{32, 32};
constexpr int64_t kChannels = 3;
constexpr auto kImageBytes = static_cast<size_t>(kSize.height * kSize.width * kChannels);
constexpr uint64_t kLongestCifarFile = uint64_t{1} << 34;

struct Layout {
  std::string_view kind;
  size_t label_bytes;  // the last of them is the label
  size_t classes;
  std::string_view names;
  std::vector<std::string_view> train;
  std::vector<std::string_view> validation;
};

PixelFile read_records(const std::filesystem::path& path, const Layout& layout) {
  const size_t stride = layout.label_bytes + kImageBytes;
  Bytes bytes = read_file(path, layout.kind, kLongestCifarFile);
  if (bytes.size() == 0 || bytes.size() % stride != 0) {
    fail_file(layout.kind, path,
              "its length must be a multiple of " + std::to_string(stride) +
                  " bytes (labels and 3x32x32 pixels) but is " + std::to_string(bytes.size()) +
                  "; it must be the binary version, whole: fetch it again");
  }
  const auto count = static_cast<int64_t>(bytes.size() / stride);
  return {path.filename().string(), std::move(bytes), 0, stride, layout.label_bytes, count};
}

void add_labels(const PixelFile& file, const Layout& layout, const std::filesystem::path& folder,
                std::vector<uint8_t>& labels) {
  const auto bytes = file.bytes.span();
  for (size_t record = 0; record < bytes.size(); record += file.stride) {
    const uint8_t label = bytes[record + layout.label_bytes - 1];
    if (label >= layout.classes) {
      fail_file(layout.kind, folder / file.name,
                "labels must be below " + std::to_string(layout.classes) + " but image " +
                    std::to_string(record / file.stride) + " has " + std::to_string(label));
    }
    labels.push_back(label);
  }
}

std::shared_ptr<const Dataset> open_layout(const Layout& layout, const std::filesystem::path& folder, Split split,
                                           const SetFacts& usual) {
  auto classes = read_lines(folder / layout.names, layout.kind);
  if (classes.size() != layout.classes) {
    fail_file(layout.kind, folder / layout.names,
              "it must name " + std::to_string(layout.classes) + " classes, one a line, but names " +
                  std::to_string(classes.size()));
  }
  std::vector<PixelFile> files;
  std::vector<uint8_t> labels;
  for (const auto name : split == Split::kTrain ? layout.train : layout.validation) {
    files.push_back(read_records(folder / name, layout));
    add_labels(files.back(), layout, folder, labels);
  }
  return std::make_shared<PixelSet>(std::move(files), std::move(labels), kSize, usual, std::move(classes));
}

}  // namespace

std::shared_ptr<const Dataset> open_cifar10(const std::filesystem::path& folder, Split split, const SetFacts& usual) {
  static const Layout layout{
      "cifar10",
      1,
      10,
      "batches.meta.txt",
      {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin", "data_batch_4.bin", "data_batch_5.bin"},
      {"test_batch.bin"}};
  return open_layout(layout, folder, split, usual);
}

std::shared_ptr<const Dataset> open_cifar100(const std::filesystem::path& folder, Split split, const SetFacts& usual) {
  static const Layout layout{"cifar100", 2, 100, "fine_label_names.txt", {"train.bin"}, {"test.bin"}};
  return open_layout(layout, folder, split, usual);
}

}  // namespace frn::data
