// What goes through a network together, with what is known of each sample.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "frn/data/target.h"

namespace frn::data {

// The lists have an entry for each sample.
struct Batch {
  int64_t number = 0;
  at::Tensor images;                   // [N, ...], of images [N, channels, size, size], float32 in the format asked for
  std::vector<Target> targets{};       // moved with the image
  std::vector<int64_t> indices{};      // which samples of the set they are
  std::vector<Geometry> geometries{};  // what was done to the image; its size before is geometries[i].source
  std::vector<std::string> names{};    // what messages call the sample

  int64_t size() const { return images.defined() ? images.size(0) : 0; }
  // The targets' labels, [N] int64.
  at::Tensor labels() const;
  // The targets' numbers, [N, numbers of each] float32. Throws frn::Error when samples have different counts.
  at::Tensor numbers() const;
  // The samples from `begin` on; images share memory. Lists that are empty stay empty.
  Batch part(int64_t begin, int64_t length) const;
};

// A batch of tensors at hand: for loops of one's own, and for tests.
Batch make_batch(at::Tensor images, std::vector<Target> targets);
// With labels [N] int64.
Batch make_batch(at::Tensor images, const at::Tensor& labels);

}  // namespace frn::data
