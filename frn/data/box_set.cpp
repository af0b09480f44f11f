#include "frn/data/box_set.h"

#include <cmath>
#include <cstdio>
#include <utility>

#include "frn/core/error.h"
#include "frn/data/decode.h"

namespace frn::data {
namespace {

constexpr std::string_view kBoxSetOperation = "data";
constexpr uint64_t kLongestImageFile = uint64_t{1} << 30;

// As a person writes it: no digits beyond those that the file had.
std::string text_of(double number) {
  std::string text(32, '\0');
  text.resize(static_cast<size_t>(std::snprintf(text.data(), text.size(), "%.10g", number)));
  return text;
}

std::string text_of(const Size& size) {
  return std::to_string(size.width) + " x " + std::to_string(size.height) + " pixels";
}

Box box_of(const Truth& truth) {
  return {.left = truth.left,
          .top = truth.top,
          .right = truth.left + truth.width,
          .bottom = truth.top + truth.height,
          .label = truth.label,
          .crowd = truth.crowd};
}

}  // namespace

std::string fault_of(const Truth& truth, const Size& image) {
  const double right = truth.left + truth.width;
  const double bottom = truth.top + truth.height;
  const auto box = [&] {
    return text_of(truth.width) + " x " + text_of(truth.height) + " at left " + text_of(truth.left) + ", top " +
           text_of(truth.top);
  };
  if (!std::isfinite(right) || !std::isfinite(bottom)) return "its box must have finite numbers but is " + box();
  if (truth.width <= 0 || truth.height <= 0) return "its box must have a width and a height above 0 but is " + box();
  if (image.height <= 0 || image.width <= 0) return "";
  const bool outside = right <= 0 || bottom <= 0 || truth.left >= static_cast<double>(image.width) ||
                       truth.top >= static_cast<double>(image.height);
  if (!outside) return "";
  return "its box must overlap the image, which has " + text_of(image) + ", but is " + box();
}

BoxSet::BoxSet(BoxSetParts parts)
    : folder_(std::move(parts.images)),
      list_(std::move(parts.list)),
      truths_(parts.truths.size()),
      offsets_(list_.size() + 1),
      problems_(std::move(parts.problems)) {
  classes_ = std::move(parts.classes);
  class_ids_ = std::move(parts.class_ids);
  facts_ = parts.facts;
  // Sorted by image and, within one, as they came: counts, then places, then each to its place.
  for (const auto& placed : parts.truths) ++offsets_.at(static_cast<size_t>(placed.image) + 1);
  for (size_t i = 1; i < offsets_.size(); ++i) offsets_[i] += offsets_[i - 1];
  auto next = offsets_;
  for (const auto& placed : parts.truths) {
    const auto image = static_cast<size_t>(placed.image);
    truths_[next[image]++] = placed.truth;
  }
}

std::span<const Truth> BoxSet::truths_of(int64_t index) const {
  const auto image = static_cast<size_t>(index);
  return std::span(truths_).subspan(offsets_.at(image), offsets_.at(image + 1) - offsets_.at(image));
}

Target BoxSet::target(int64_t index) const {
  const auto& image = list_.at(static_cast<size_t>(index));
  const auto truths = truths_of(index);
  Target target{.image_id = image.id, .truths = {truths.begin(), truths.end()}};
  for (const auto& truth : truths) {
    if (fault_of(truth, image.size).empty()) target.boxes.push_back(box_of(truth));
  }
  return target;
}

std::string BoxSet::name(int64_t index) const { return (folder_ / list_.at(static_cast<size_t>(index)).file).string(); }

std::unique_ptr<ImageSource> BoxSet::open(int64_t index) const {
  const auto path = name(index);
  const auto& said = list_.at(static_cast<size_t>(index)).size;
  auto image = open_image(read_file(path, kBoxSetOperation, kLongestImageFile), path);
  const bool known = said.height > 0 && said.width > 0;
  if (known && image->size() != said) {
    fail_file(kBoxSetOperation, path,
              "it must have " + text_of(said) + ", as its annotation says, but has " + text_of(image->size()) +
                  "; its boxes may be those of another image, or of this one before a rotation");
  }
  return image;
}

}  // namespace frn::data
