// Which samples make up each batch: a pure function of the batch's number, so that a run can start anywhere.
#pragma once

#include <cstdint>
#include <vector>

#include "frn/core/random.h"

namespace frn::data {

struct SampleKey {
  int64_t index;
  RandomKey random;  // of (seed, epoch, index) alone
};

struct OrderOptions {
  int64_t samples = 0;
  int64_t batch_global = 0;
  uint64_t seed = 0;
  bool shuffle = true;     // else by index, every epoch alike
  bool keep_last = false;  // keep an epoch's last, smaller batch, cut to a multiple of `divisor`
  int64_t divisor = 1;     // devices, which share every batch evenly
  int64_t epochs = -1;     // -1: without end
  // The part of one rank. With all ranks' parts together an epoch is the same for any number of them.
  int64_t rank = 0;
  int64_t world = 1;
  int64_t micro_batches = 1;   // a rank's share of a batch is its share of each of these, in order
  bool whole_batches = false;  // ranks take turns at whole batches instead (evaluation)
};

class BatchOrder {
 public:
  // Throws frn::Error when an epoch would hold no batch.
  explicit BatchOrder(const OrderOptions& options);

  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  int64_t samples_per_epoch() const;
  // The rank's samples of a batch, counted from 0 over all epochs; none after the last epoch. Not for many threads at
  // once: it keeps the epoch's permutation.
  std::vector<SampleKey> batch(int64_t number);

 private:
  OrderOptions options_;
  int64_t batches_per_epoch_ = 0;
  int64_t epoch_ = -1;
  std::vector<int64_t> permutation_;
};

}  // namespace frn::data
