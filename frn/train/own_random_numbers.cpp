#include "frn/train/own_random_numbers.h"

#include <ATen/Context.h>

#include <mutex>

namespace frn::train {

OwnRandomNumbers::OwnRandomNumbers(uint64_t seed, at::Device device)
    : generator_(at::globalContext().defaultGenerator(device)) {
  const std::lock_guard lock(generator_.mutex());
  before_ = generator_.get_state();
  generator_.set_current_seed(seed);
}

OwnRandomNumbers::~OwnRandomNumbers() {
  const std::lock_guard lock(generator_.mutex());
  generator_.set_state(before_);
}

}  // namespace frn::train
