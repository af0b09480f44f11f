#include "frn/train/task.h"

#include <fmt/format.h>

#include "frn/core/error.h"

namespace frn::train {

NamedValues named_values(std::span<const Metric> metrics, const Score& score) {
  const auto values = score.values();
  if (values.size() != metrics.size()) {
    throw Error("score", fmt::format("a score must have a value for each of the {} metrics of its task but has {}",
                                     metrics.size(), values.size()));
  }
  NamedValues out;
  for (size_t i = 0; i < values.size(); ++i) out.push_back({metrics[i].key, values[i]});
  return out;
}

}  // namespace frn::train
