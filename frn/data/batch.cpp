#include "frn/data/batch.h"

#include <ATen/ops/empty.h>

#include "frn/core/error.h"
#include "frn/core/text.h"

namespace frn::data {
namespace {

template <typename T>
std::vector<T> part_of(const std::vector<T>& list, int64_t begin, int64_t length) {
  if (list.empty()) return {};
  return {list.begin() + begin, list.begin() + begin + length};
}

}  // namespace

at::Tensor Batch::labels() const {
  auto out = at::empty({static_cast<int64_t>(targets.size())}, at::kLong);
  auto* value = out.mutable_data_ptr<int64_t>();
  for (const auto& target : targets) *value++ = target.label;
  return out;
}

at::Tensor Batch::numbers() const {
  const auto count = targets.empty() ? size_t{0} : targets.front().numbers.size();
  auto out = at::empty({static_cast<int64_t>(targets.size()), static_cast<int64_t>(count)}, at::kFloat);
  auto* value = out.mutable_data_ptr<float>();
  for (size_t i = 0; i < targets.size(); ++i) {
    const auto& numbers = targets[i].numbers;
    if (numbers.size() != count) {
      throw Error("batch", "every sample must have " + std::to_string(count) +
                               " numbers, as the first of its batch has, but " +
                               (i < names.size() ? names[i] : "sample " + std::to_string(i)) + " has " +
                               std::to_string(numbers.size()));
    }
    for (const double number : numbers) *value++ = static_cast<float>(number);
  }
  return out;
}

Batch Batch::part(int64_t begin, int64_t length) const {
  if (begin < 0 || length < 0 || begin + length > size()) {
    throw Error("batch", "a part must lie within the " + std::to_string(size()) +
                             " samples of the batch but begins at " + std::to_string(begin) + " and has " +
                             std::to_string(length));
  }
  if (begin == 0 && length == size()) return *this;
  return {.number = number,
          .images = images.narrow(0, begin, length),
          .targets = part_of(targets, begin, length),
          .indices = part_of(indices, begin, length),
          .geometries = part_of(geometries, begin, length),
          .names = part_of(names, begin, length)};
}

Batch make_batch(at::Tensor images, std::vector<Target> targets) {
  if (images.dim() < 1 || images.size(0) != static_cast<int64_t>(targets.size())) {
    throw Error("batch", "there must be a target per image but there are " + std::to_string(targets.size()) +
                             " for images of shape " + shape_text(images.sizes()));
  }
  Batch out;
  out.images = std::move(images);
  out.targets = std::move(targets);
  return out;
}

Batch make_batch(at::Tensor images, const at::Tensor& labels) {
  std::vector<Target> targets;
  for (int64_t i = 0; i < labels.size(0); ++i) targets.push_back({.label = labels[i].item<int64_t>()});
  return make_batch(std::move(images), std::move(targets));
}

}  // namespace frn::data
