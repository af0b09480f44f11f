#include "frn/data/pixel_set.h"

#include <algorithm>
#include <span>

#include "frn/core/error.h"

namespace frn::data {
namespace {

class PlanarSource : public ImageSource {
 public:
  PlanarSource(std::span<const uint8_t> planes, Size size, int64_t channels)
      : planes_(planes), size_(size), channels_(channels) {}

  Size size() const override { return size_; }

  Image read(const Region& region, const Size&) const override {
    check_region(region, size_);
    Image image{{region.height, region.width}, channels_, {}};
    image.pixels.resize(static_cast<size_t>(region.height * region.width * channels_));
    for (int64_t channel = 0; channel < channels_; ++channel) {
      for (int64_t row = 0; row < region.height; ++row) copy_row(region, channel, row, image);
    }
    return image;
  }

 private:
  void copy_row(const Region& region, int64_t channel, int64_t row, Image& image) const {
    const int64_t first = (channel * size_.height + region.top + row) * size_.width + region.left;
    const uint8_t* from = planes_.data() + first;
    uint8_t* to = image.pixels.data() + row * region.width * channels_ + channel;
    if (channels_ == 1) {
      std::copy_n(from, region.width, to);
      return;
    }
    for (int64_t column = 0; column < region.width; ++column) to[column * channels_] = from[column];
  }

  std::span<const uint8_t> planes_;
  Size size_;
  int64_t channels_;
};

}  // namespace

PixelSet::PixelSet(std::vector<PixelFile> files, std::vector<uint8_t> labels, Size size, const SetFacts& facts,
                   std::vector<std::string> classes)
    : files_(std::move(files)), labels_(std::move(labels)), image_size_(size) {
  classes_ = std::move(classes);
  facts_ = facts;
}

std::pair<const PixelFile*, int64_t> PixelSet::place(int64_t index) const {
  int64_t left = index;
  for (const auto& file : files_) {
    if (left >= 0 && left < file.count) return {&file, left};
    left -= file.count;
  }
  throw Error("data", "an index must be from 0 to " + std::to_string(size() - 1) + " but is " + std::to_string(index));
}

std::string PixelSet::name(int64_t index) const {
  const auto [file, place_in_file] = place(index);
  return file->name + ", image " + std::to_string(place_in_file);
}

std::unique_ptr<ImageSource> PixelSet::open(int64_t index) const {
  const auto [file, place_in_file] = place(index);
  const size_t first = file->begin + static_cast<size_t>(place_in_file) * file->stride + file->skip;
  const auto length = static_cast<size_t>(image_size_.height * image_size_.width * facts_.channels);
  return std::make_unique<PlanarSource>(file->bytes.span().subspan(first, length), image_size_, facts_.channels);
}

}  // namespace frn::data
