#include "frn/data/order.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "frn/core/error.h"

namespace frn::data {
namespace {

// Apart from every index, whose keys follow from the same one.
constexpr auto kPermutation = ~uint64_t{0};

void check(const OrderOptions& options) {
  const auto at_least_1 = [](const char* what, int64_t value) {
    if (value < 1) throw Error("order", std::string(what) + " must be at least 1 but is " + std::to_string(value));
  };
  at_least_1("the number of samples", options.samples);
  at_least_1("batch_global", options.batch_global);
  at_least_1("the divisor", options.divisor);
  at_least_1("the number of ranks", options.world);
  at_least_1("the number of micro-batches", options.micro_batches);
  if (options.rank < 0 || options.rank >= options.world) {
    throw Error("order", "the rank must be from 0 to below " + std::to_string(options.world) + " but is " +
                             std::to_string(options.rank));
  }
  if (!options.whole_batches && options.divisor % options.world != 0) {
    throw Error("order", "the divisor (devices) must be a multiple of the " + std::to_string(options.world) +
                             " ranks but is " + std::to_string(options.divisor));
  }
  if (options.batch_global % options.divisor != 0) {
    throw Error("order", "batch_global must be a multiple of " + std::to_string(options.divisor) +
                             " (devices share a batch evenly) but is " + std::to_string(options.batch_global));
  }
}

// A batch's samples that are one rank's: of each micro-batch its part, in order.
std::vector<SampleKey> part_of_rank(const std::vector<SampleKey>& batch, const OrderOptions& options) {
  std::vector<SampleKey> part;
  const auto count = static_cast<int64_t>(batch.size());
  const int64_t micro_batch = options.batch_global / options.micro_batches;
  for (int64_t begin = 0; begin < count; begin += micro_batch) {
    const int64_t share = std::min(micro_batch, count - begin) / options.world;
    const auto first = batch.begin() + begin + options.rank * share;
    part.insert(part.end(), first, first + share);
  }
  return part;
}

int64_t last_batch(const OrderOptions& options) {
  if (!options.keep_last) return 0;
  return options.samples % options.batch_global / options.divisor * options.divisor;
}

}  // namespace

BatchOrder::BatchOrder(const OrderOptions& options) : options_(options) {
  check(options);
  batches_per_epoch_ = options.samples / options.batch_global + (last_batch(options) > 0 ? 1 : 0);
  if (batches_per_epoch_ > 0) return;
  throw Error("order", "an epoch must hold a batch but batch_global is " + std::to_string(options.batch_global) +
                           " and there are " + std::to_string(options.samples) + " samples; take smaller batches");
}

int64_t BatchOrder::samples_per_epoch() const {
  return options_.samples / options_.batch_global * options_.batch_global + last_batch(options_);
}

std::vector<SampleKey> BatchOrder::batch(int64_t number) {
  if (options_.whole_batches) number = number * options_.world + options_.rank;
  const int64_t epoch = number / batches_per_epoch_;
  if (options_.epochs >= 0 && epoch >= options_.epochs) return {};
  const auto key = RandomKey(options_.seed).with(static_cast<uint64_t>(epoch));
  if (options_.shuffle && epoch_ != epoch) {
    permutation_.resize(static_cast<size_t>(options_.samples));
    std::iota(permutation_.begin(), permutation_.end(), 0);
    Random random(key.with(kPermutation));
    for (int64_t i = options_.samples - 1; i > 0; --i) {
      std::swap(permutation_[static_cast<size_t>(i)], permutation_[static_cast<size_t>(random.below(i + 1))]);
    }
    epoch_ = epoch;
  }
  const int64_t first = number % batches_per_epoch_ * options_.batch_global;
  const int64_t count = std::min(options_.batch_global, samples_per_epoch() - first);
  std::vector<SampleKey> samples;
  samples.reserve(static_cast<size_t>(count));
  for (int64_t i = first; i < first + count; ++i) {
    const int64_t index = options_.shuffle ? permutation_[static_cast<size_t>(i)] : i;
    samples.push_back({index, key.with(static_cast<uint64_t>(index))});
  }
  return options_.whole_batches || options_.world == 1 ? samples : part_of_rank(samples, options_);
}

}  // namespace frn::data
