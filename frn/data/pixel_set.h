// A set whose images are all in memory and of one size: what IDX and CIFAR files hold.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "frn/data/bytes.h"
#include "frn/data/dataset.h"

namespace frn::data {

// Images of one file: the record of image i starts at bytes[begin + i*stride + skip].
struct PixelFile {
  std::string name;  // "test_batch.bin"
  Bytes bytes;
  size_t begin = 0;
  size_t stride = 0;
  size_t skip = 0;
  int64_t count = 0;
};

class PixelSet : public Dataset {
 public:
  // Every file holds images of that size; channels stand one after another, as planes.
  PixelSet(std::vector<PixelFile> files, std::vector<uint8_t> labels, Size size, const SetFacts& facts,
           std::vector<std::string> classes);

  int64_t size() const override { return static_cast<int64_t>(labels_.size()); }
  Target target(int64_t index) const override { return {.label = labels_.at(static_cast<size_t>(index))}; }
  std::string name(int64_t index) const override;
  std::unique_ptr<ImageSource> open(int64_t index) const override;

 private:
  std::pair<const PixelFile*, int64_t> place(int64_t index) const;

  std::vector<PixelFile> files_;
  std::vector<uint8_t> labels_;
  Size image_size_;
};

}  // namespace frn::data
