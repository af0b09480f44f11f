#include "frn/nn/dropout.h"

#include <ATen/Parallel.h>
#include <ATen/ops/dropout.h>
#include <ATen/ops/empty.h>

#include "frn/core/error.h"

namespace frn {
namespace {

// Of this thread; in a class of its own, so that sources compiled together do not share names.
struct Innermost {
  static DropoutKeys*& keys() {
    thread_local DropoutKeys* innermost = nullptr;
    return innermost;
  }
};

at::Tensor mask_of(const at::Tensor& x, double share, std::span<const RandomKey> keys, uint64_t layer) {
  const int64_t samples = x.size(0);
  const int64_t units = samples == 0 ? 0 : x.numel() / samples;
  auto mask = at::empty(x.sizes(), at::kFloat);
  float* const values = mask.mutable_data_ptr<float>();
  const auto kept = static_cast<float>(1 / (1 - share));
  at::parallel_for(0, samples, 1, [&](int64_t begin, int64_t end) {
    for (int64_t sample = begin; sample < end; ++sample) {
      Random random(keys[static_cast<size_t>(sample)].with(layer));
      for (int64_t unit = 0; unit < units; ++unit) {
        values[sample * units + unit] = random.uniform() < share ? 0.0F : kept;
      }
    }
  });
  return mask.to(x.options());
}

}  // namespace

DropoutKeys::DropoutKeys(std::span<const RandomKey> keys) : keys_(keys), outer_(Innermost::keys()) {
  Innermost::keys() = this;
}

DropoutKeys::~DropoutKeys() { Innermost::keys() = outer_; }

at::Tensor drop_units(const at::Tensor& x, double share, bool training) {
  auto* const keys = Innermost::keys();
  if (!training || share == 0) return x;
  if (keys == nullptr || keys->keys_.empty()) return at::dropout(x, share, training);
  if (x.size(0) != static_cast<int64_t>(keys->keys_.size())) {
    throw Error("dropout", "a key per sample must be given but there are " + std::to_string(keys->keys_.size()) +
                               " for " + std::to_string(x.size(0)) + " samples");
  }
  return x * mask_of(x, share, keys->keys_, keys->layer_++);
}

}  // namespace frn
