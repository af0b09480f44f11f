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
  // Images as labelled or, where the set has boxes, boxes that training uses; of broken images too.
  std::vector<int64_t> per_class;
  bool has_boxes = false;
  int64_t without_boxes = 0;  // images that training uses as background, where the set has boxes
  Size smallest;              // the least height and the least width of images that could be read, not of one image
  Size largest;
  int64_t grey = 0;                 // images with one channel
  std::vector<BrokenImage> broken;  // by index
  std::vector<Problem> problems;    // the set's own
};

// Decodes every image in full, on that many threads. `progress` is told how many are done, in ascending order, on one
// thread at a time, about every hundredth part; it may be empty. What it throws ends the check.
CheckReport check_dataset(const Dataset& dataset, int64_t threads,
                          const std::function<void(int64_t done, int64_t all)>& progress = {});

}  // namespace frn::data
