// Images and labels of two IDX files as a set.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "frn/data/dataset.h"
#include "frn/data/idx.h"

namespace frn::data {

// Images [N, height, width] and labels [N]; `source` is the images' name in messages. Throws frn::Error when they do
// not fit together, are empty, or a label has no class. Without classes they are named by their numbers.
std::shared_ptr<const Dataset> make_idx_set(IdxArray images, const IdxArray& labels, const SetFacts& facts,
                                            const std::string& source, std::vector<std::string> classes);

}  // namespace frn::data
