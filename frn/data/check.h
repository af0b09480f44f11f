// Looks at every image of a set before a long run does.
#pragma once

#include <functional>
#include <vector>

#include "frn/data/dataset.h"

namespace frn::data {

struct BrokenImage {
  int64_t index = 0;
  std::string name;
  std::string reason;
};

struct CheckReport {
  int64_t images = 0;
  std::vector<int64_t> per_class;  // as labelled, broken ones included
  Size smallest;  // the least height and the least width of images that could be read, not of one image
  Size largest;
  int64_t grey = 0;                 // images with one channel
  std::vector<BrokenImage> broken;  // by index
};

// Decodes every image in full, on that many threads. `progress` is told how many are done, in ascending order, on one
// thread at a time, about every hundredth part; it may be empty. What it throws ends the check.
CheckReport check_dataset(const Dataset& dataset, int64_t threads,
                          const std::function<void(int64_t done, int64_t all)>& progress = {});

}  // namespace frn::data
