// A set in memory for tests: small grey images whose pixels follow from their index; some may be broken.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "frn/core/error.h"
#include "frn/data/dataset.h"

namespace frn::data {

class MemorySource : public ImageSource {
 public:
  explicit MemorySource(Image image) : image_(std::move(image)) {}
  Size size() const override { return image_.size; }
  Image read(const Region& region, const Size&) const override {
    check_region(region, image_.size);
    Image result{{region.height, region.width}, image_.channels, {}};
    for (int64_t row = region.top; row < region.top + region.height; ++row) {
      const auto* from = image_.pixels.data() + (row * image_.size.width + region.left) * image_.channels;
      result.pixels.insert(result.pixels.end(), from, from + region.width * image_.channels);
    }
    return result;
  }

 private:
  Image image_;
};

inline Image numbered_image(int64_t index, const Size& size, int64_t channels) {
  Image image{size, channels, {}};
  for (int64_t i = 0; i < size.height * size.width * channels; ++i) {
    image.pixels.push_back(static_cast<uint8_t>(index * 31 + i * 7));
  }
  return image;
}

class FakeSet : public Dataset {
 public:
  explicit FakeSet(int64_t size, std::set<int64_t> broken = {}) : size_(size), broken_(std::move(broken)) {
    classes_ = {"a", "b", "c"};
  }
  int64_t size() const override { return size_; }
  Target target(int64_t index) const override { return {.label = index % 3}; }
  std::string name(int64_t index) const override { return "image " + std::to_string(index); }
  std::unique_ptr<ImageSource> open(int64_t index) const override {
    ++opened;
    if (on_open) on_open();
    if (throws_other) throw std::logic_error("no image");
    if (broken_.contains(index)) throw Error("fake", "image " + std::to_string(index) + " is broken");
    return std::make_unique<MemorySource>(numbered_image(index, {8, 8}, 1));
  }

  mutable std::atomic<int64_t> opened = 0;
  std::function<void()> on_open;  // by whoever opens, so by many threads at once
  bool throws_other = false;

 private:
  int64_t size_;
  std::set<int64_t> broken_;
};

}  // namespace frn::data
