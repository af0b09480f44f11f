// `random`: noise as a function of the index, for benchmarks and dry runs without files.
#include <algorithm>
#include <utility>

#include "frn/core/error.h"
#include "frn/core/random.h"
#include "frn/data/dimensions.h"
#include "frn/data/kinds.h"

namespace frn::data {
namespace {

constexpr int64_t kTrainImages = 10'240;
constexpr int64_t kValidationImages = 1'024;
constexpr int64_t kLargestSize = 4096;
constexpr int64_t kMostClasses = 1'000'000;

struct Shape {
  int64_t size = 224;
  int64_t channels = 3;
  int64_t classes = 1000;
};

class NoiseSource : public ImageSource {
 public:
  NoiseSource(RandomKey key, const Shape& shape) : key_(key), shape_(shape) {}
  Size size() const override { return {shape_.size, shape_.size}; }
  Image read(const Region& region, const Size&) const override {
    check_region(region, size());
    Image image{{region.height, region.width}, shape_.channels, {}};
    const auto row_bytes = static_cast<size_t>(region.width * shape_.channels);
    image.pixels.resize(static_cast<size_t>(region.height) * row_bytes);
    for (int64_t i = 0; i < region.height; ++i) write_row(region, i, image.pixels.data() + i * row_bytes);
    return image;
  }

 private:
  void write_row(const Region& region, int64_t row, uint8_t* out) const {
    Random random(key_.with(static_cast<uint64_t>(region.top + row)));
    const int64_t first = region.left * shape_.channels;
    const int64_t last = first + region.width * shape_.channels;
    for (int64_t begin = 0; begin < last; begin += 8) {
      const uint64_t bits = random.bits();
      for (int64_t i = std::max(begin, first); i < std::min(begin + 8, last); ++i) {
        out[i - first] = static_cast<uint8_t>(bits >> (8 * (i - begin)));
      }
    }
  }

  RandomKey key_;
  Shape shape_;
};

class NoiseSet : public Dataset {
 public:
  NoiseSet(const Shape& shape, Split split, const SetFacts& usual)
      : shape_(shape),
        key_(RandomKey(0).with(split == Split::kTrain ? 0 : 1)),
        size_(split == Split::kTrain ? kTrainImages : kValidationImages) {
    for (int64_t i = 0; i < shape.classes; ++i) classes_.push_back(std::to_string(i));
    facts_ = usual;
    facts_.channels = shape.channels;
    facts_.image_size = shape.size;
  }

  int64_t size() const override { return size_; }
  Target target(int64_t index) const override { return {.label = index % shape_.classes}; }
  std::string name(int64_t index) const override { return "random, image " + std::to_string(index); }
  std::unique_ptr<ImageSource> open(int64_t index) const override {
    return std::make_unique<NoiseSource>(key_.with(static_cast<uint64_t>(index)), shape_);
  }

 private:
  Shape shape_;
  RandomKey key_;
  int64_t size_;
};

[[noreturn]] void fail_noise(const std::string& text) {
  throw Error("random", "after random: stands SIZExCHANNELSxCLASSES, as in random:224x3x1000 (size up to " +
                            std::to_string(kLargestSize) + ", channels 1 or 3, classes up to " +
                            std::to_string(kMostClasses) + "), but there is '" + text + "'");
}

Shape parse_shape(const std::string& text) {
  Shape shape;
  if (text.empty()) return shape;
  const bool parsed = parse_dimensions(text, {&shape.size, &shape.channels, &shape.classes});
  const bool fits = shape.size >= 1 && shape.size <= kLargestSize && (shape.channels == 1 || shape.channels == 3) &&
                    shape.classes >= 1 && shape.classes <= kMostClasses;
  if (!parsed || !fits) fail_noise(text);
  return shape;
}

}  // namespace

std::shared_ptr<const Dataset> open_noise(const std::filesystem::path& text, Split split, const SetFacts& usual) {
  return std::make_shared<NoiseSet>(parse_shape(text.string()), split, usual);
}

}  // namespace frn::data
