// `shapes`: discs, squares and triangles on a noisy ground as a function of the index, to try detectors without files.
// Colours say nothing of the class, sizes differ by a factor of four, and shapes may hide a part of each other. Classes
// after the third are the same shapes in a colour of their own, for networks with many classes.
#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "frn/core/error.h"
#include "frn/core/random.h"
#include "frn/data/dimensions.h"
#include "frn/data/kinds.h"
#include "frn/data/pixels.h"

namespace frn::data {
namespace {

constexpr std::array<std::string_view, 3> kShapes{"disc", "square", "triangle"};
constexpr auto kShapeCount = static_cast<int64_t>(kShapes.size());
constexpr int64_t kMostShapeClasses = 1000;
constexpr int64_t kSmallestSize = 32;
constexpr int64_t kLargestShapesSize = 4096;
constexpr int64_t kMostImages = 1'000'000;
constexpr int64_t kTrainPerValidation = 5;

constexpr double kEmptyShare = 0.1;  // of images, without any shape
constexpr int64_t kMostShapes = 6;
constexpr double kSmallestSide = 0.1;  // of the image's; the largest is four times that
constexpr double kMostHidden = 0.3;    // of a shape's box, by the box of another
constexpr int kTriesToPlace = 20;      // to place a shape
constexpr int kMostGradient = 30;      // between the ground's top and bottom, of 255
constexpr int kNoise = 24;             // either way, of 255
constexpr int kLeastContrast = 110;    // to the ground, of the channel that differs most
// What is drawn from parts of an image's key, so that neither depends on how many numbers the other took.
constexpr uint64_t kOfShapes = 0;
constexpr uint64_t kOfColours = 1;
constexpr uint64_t kOfNoise = 2;
constexpr uint64_t kOfClasses = 2;  // after those of the two splits

struct Settings {
  int64_t size = 128;
  int64_t classes = kShapeCount;
  int64_t images = 1000;
};

struct DrawnShape {
  int64_t label = 0;
  int64_t left = 0;
  int64_t top = 0;
  int64_t side = 0;
};

using Colour = std::array<int, 3>;

// --- Where the shapes lie ---

// The share of the smaller box that the other one covers.
double covered(const DrawnShape& a, const DrawnShape& b) {
  const auto overlap = [](int64_t begin, int64_t length, int64_t other, int64_t other_length) {
    return static_cast<double>(
        std::max<int64_t>(0, std::min(begin + length, other + other_length) - std::max(begin, other)));
  };
  const auto smaller = static_cast<double>(std::min(a.side, b.side));
  return overlap(a.left, a.side, b.left, b.side) * overlap(a.top, a.side, b.top, b.side) / (smaller * smaller);
}

DrawnShape draw_shape(const Settings& settings, Random& random) {
  const auto size = static_cast<double>(settings.size);
  DrawnShape shape;
  shape.label = random.below(settings.classes);
  // As many small ones as large ones. Without powers, of which machines differ in the last digit.
  const double least = random.coin() ? kSmallestSide : 2 * kSmallestSide;
  shape.side = std::llround(random.uniform(least, 2 * least) * size);
  shape.left = random.below(settings.size - shape.side + 1);
  shape.top = random.below(settings.size - shape.side + 1);
  return shape;
}

std::vector<DrawnShape> draw_shapes(const Settings& settings, RandomKey key) {
  Random random(key.with(kOfShapes));
  std::vector<DrawnShape> shapes;
  if (random.uniform() < kEmptyShare) return shapes;
  const auto wanted = static_cast<size_t>(1 + random.below(kMostShapes));
  for (size_t i = 0; i < wanted; ++i) {
    for (int attempt = 0; attempt < kTriesToPlace; ++attempt) {
      const auto shape = draw_shape(settings, random);
      const auto hides = [&](const DrawnShape& other) { return covered(shape, other) > kMostHidden; };
      if (std::any_of(shapes.begin(), shapes.end(), hides)) continue;
      shapes.push_back(shape);
      break;
    }
  }
  return shapes;
}

// --- How they look ---

// Whether a pixel of the shape's square belongs to it. Every side of the square is touched, so the square is the box.
bool is_inside(const DrawnShape& shape, int64_t x, int64_t y) {
  const int64_t across = std::abs(2 * x + 1 - shape.side);  // of its middle, in half pixels
  const int64_t down = std::abs(2 * y + 1 - shape.side);
  const int64_t kind = shape.label % kShapeCount;
  if (kind == 0) return across * across + down * down <= shape.side * shape.side;
  return kind == 1 || across <= y + 1;
}

Colour draw_colour(Random& random) {
  Colour colour{};
  for (auto& value : colour) value = static_cast<int>(random.below(256));
  return colour;
}

int contrast(const Colour& a, const Colour& b) {
  int most = 0;
  for (size_t i = 0; i < a.size(); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

Colour draw_colour_unlike(const Colour& first, const Colour& second, Random& random) {
  while (true) {
    const auto colour = draw_colour(random);
    if (contrast(colour, first) >= kLeastContrast && contrast(colour, second) >= kLeastContrast) return colour;
  }
}

Colour colour_of_class(int64_t label) {
  Random random(RandomKey(0).with(kOfClasses).with(static_cast<uint64_t>(label)));
  return draw_colour(random);
}

void put(const Colour& colour, uint8_t* pixel) {
  for (size_t i = 0; i < colour.size(); ++i) pixel[i] = static_cast<uint8_t>(colour[i]);
}

// From one colour at the top to another at the bottom.
void paint_ground(const Colour& top, const Colour& bottom, Image& image) {
  const auto [height, width] = image.size;
  for (int64_t y = 0; y < height; ++y) {
    Colour colour{};
    for (size_t i = 0; i < colour.size(); ++i) {
      colour[i] = top[i] + static_cast<int>((bottom[i] - top[i]) * y / height);
    }
    for (int64_t x = 0; x < width; ++x) put(colour, image.pixels.data() + (y * width + x) * 3);
  }
}

void paint_shape(const DrawnShape& shape, const Colour& colour, Image& image) {
  for (int64_t y = 0; y < shape.side; ++y) {
    auto* row = image.pixels.data() + ((shape.top + y) * image.size.width + shape.left) * 3;
    for (int64_t x = 0; x < shape.side; ++x) {
      if (is_inside(shape, x, y)) put(colour, row + 3 * x);
    }
  }
}

void add_noise(Random random, Image& image) {
  constexpr int kValues = 2 * kNoise + 1;
  for (size_t begin = 0; begin < image.pixels.size(); begin += 8) {
    auto bits = random.bits();
    for (size_t i = begin; i < std::min(begin + 8, image.pixels.size()); ++i, bits >>= 8) {
      const int noise = static_cast<int>((bits & 0xff) * kValues >> 8) - kNoise;
      image.pixels[i] = static_cast<uint8_t>(std::clamp(image.pixels[i] + noise, 0, 255));
    }
  }
}

Image painted(const Settings& settings, RandomKey key) {
  Image image{{settings.size, settings.size}, 3, {}};
  image.pixels.resize(static_cast<size_t>(settings.size * settings.size * 3));
  Random random(key.with(kOfColours));
  const auto top = draw_colour(random);
  auto bottom = top;
  for (auto& value : bottom) {
    value = std::clamp(value + static_cast<int>(random.below(2 * kMostGradient + 1)) - kMostGradient, 0, 255);
  }
  paint_ground(top, bottom, image);
  for (const auto& shape : draw_shapes(settings, key)) {
    const bool any_colour = shape.label < kShapeCount;
    paint_shape(shape, any_colour ? draw_colour_unlike(top, bottom, random) : colour_of_class(shape.label), image);
  }
  add_noise(Random(key.with(kOfNoise)), image);
  return image;
}

// --- The set ---

class ShapesSource : public ImageSource {
 public:
  ShapesSource(const Settings& settings, RandomKey key) : settings_(settings), key_(key) {}
  Size size() const override { return {settings_.size, settings_.size}; }
  Image read(const Region& region, const Size&) const override { return part(painted(settings_, key_), region); }

 private:
  Settings settings_;
  RandomKey key_;
};

class ShapesSet : public Dataset {
 public:
  ShapesSet(const Settings& settings, Split split, const SetFacts& usual)
      : settings_(settings),
        key_(RandomKey(0).with(split == Split::kTrain ? 0 : 1)),
        size_(split == Split::kTrain ? settings.images : std::max<int64_t>(1, settings.images / kTrainPerValidation)) {
    for (int64_t i = 0; i < settings.classes; ++i) {
      std::string name(kShapes[static_cast<size_t>(i % kShapeCount)]);
      if (i >= kShapeCount) name += " " + std::to_string(1 + i / kShapeCount);
      classes_.push_back(std::move(name));
    }
    facts_ = usual;
    facts_.image_size = settings.size;
  }

  int64_t size() const override { return size_; }
  Target target(int64_t index) const override {
    Target target{.image_id = index + 1};
    for (const auto& shape : draw_shapes(settings_, key_of(index))) {
      const auto number = [](int64_t value) { return static_cast<double>(value); };
      target.boxes.push_back({.left = number(shape.left),
                              .top = number(shape.top),
                              .right = number(shape.left + shape.side),
                              .bottom = number(shape.top + shape.side),
                              .label = shape.label});
      target.truths.push_back({.id = index * kMostShapes + static_cast<int64_t>(target.boxes.size()),
                               .label = shape.label,
                               .left = number(shape.left),
                               .top = number(shape.top),
                               .width = number(shape.side),
                               .height = number(shape.side),
                               .area = number(shape.side * shape.side)});
    }
    return target;
  }
  std::string name(int64_t index) const override { return "shapes, image " + std::to_string(index); }
  std::unique_ptr<ImageSource> open(int64_t index) const override {
    return std::make_unique<ShapesSource>(settings_, key_of(index));
  }
  bool has_boxes() const override { return true; }

 private:
  RandomKey key_of(int64_t index) const { return key_.with(static_cast<uint64_t>(index)); }

  Settings settings_;
  RandomKey key_;
  int64_t size_;
};

// --- Its name ---

[[noreturn]] void fail_shapes(const std::string& text) {
  throw Error("shapes", "after shapes: stands SIZExCLASSESxIMAGES, as in shapes:128x3x1000 (size " +
                            std::to_string(kSmallestSize) + " to " + std::to_string(kLargestShapesSize) +
                            ", classes 1 to " + std::to_string(kMostShapeClasses) + ", training images up to " +
                            std::to_string(kMostImages) + "), but there is '" + text + "'");
}

Settings parse_settings(const std::string& text) {
  Settings settings;
  if (text.empty()) return settings;
  const bool parsed = parse_dimensions(text, {&settings.size, &settings.classes, &settings.images});
  const bool fits = settings.size >= kSmallestSize && settings.size <= kLargestShapesSize && settings.classes >= 1 &&
                    settings.classes <= kMostShapeClasses && settings.images >= 1 && settings.images <= kMostImages;
  if (!parsed || !fits) fail_shapes(text);
  return settings;
}

}  // namespace

std::shared_ptr<const Dataset> open_shapes(const std::filesystem::path& text, Split split, const SetFacts& usual) {
  return std::make_shared<ShapesSet>(parse_settings(text.string()), split, usual);
}

}  // namespace frn::data
