#include "frn/metrics/top_k.h"

#include <cmath>
#include <string>

#include "frn/core/error.h"

namespace frn {
namespace {

// How many classes come before the label.
int64_t rank_of(const float* scores, int64_t classes, int64_t label) {
  const float own = scores[label];
  int64_t before = 0;
  for (int64_t c = 0; c < classes; ++c) {
    before += scores[c] > own || (scores[c] == own && c < label) || std::isnan(scores[c]) ? 1 : 0;
  }
  return before;
}

double share(int64_t part, int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

void TopK::add(std::span<const float> scores, int64_t classes, std::span<const int64_t> labels) {
  if (classes < 0 || scores.size() != labels.size() * static_cast<size_t>(classes)) {
    throw Error("top_k", "scores must be " + std::to_string(labels.size()) + " labels x " + std::to_string(classes) +
                             " classes but are " + std::to_string(scores.size()));
  }
  for (size_t n = 0; n < labels.size(); ++n) {
    const int64_t label = labels[n];
    if (label < 0 || label >= classes) {
      throw Error("top_k", "labels must be from 0 to below the " + std::to_string(classes) + " classes but one is " +
                               std::to_string(label));
    }
    const float* const row = scores.data() + n * static_cast<size_t>(classes);
    const int64_t rank = std::isnan(row[label]) ? classes : rank_of(row, classes, label);
    ++samples;
    first += rank < 1 ? 1 : 0;
    first_five += rank < 5 ? 1 : 0;
  }
}

double TopK::precision_at_1() const { return share(first, samples); }
double TopK::recall_at_5() const { return share(first_five, samples); }

}  // namespace frn
