#include "frn/metrics/top_k.h"

#include <cmath>

#include "frn/core/error.h"
#include "frn/core/text.h"

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

void TopK::add(const at::Tensor& logits, const at::Tensor& labels) {
  if (logits.dim() != 2 || labels.dim() != 1 || labels.size(0) != logits.size(0)) {
    throw Error("top_k", "logits and labels must have shapes [N, classes] and [N] but have " +
                             shape_text(logits.sizes()) + " and " + shape_text(labels.sizes()));
  }
  const auto scores = logits.detach().to(at::kCPU, at::kFloat).contiguous();
  const auto truth = labels.to(at::kCPU, at::kLong).contiguous();
  const int64_t classes = scores.size(1);
  for (int64_t n = 0; n < scores.size(0); ++n) {
    const int64_t label = truth.const_data_ptr<int64_t>()[n];
    if (label < 0 || label >= classes) {
      throw Error("top_k", "labels must be from 0 to below the " + std::to_string(classes) + " classes but one is " +
                               std::to_string(label));
    }
    const float* const row = scores.const_data_ptr<float>() + n * classes;
    const int64_t rank = std::isnan(row[label]) ? classes : rank_of(row, classes, label);
    ++samples;
    first += rank < 1 ? 1 : 0;
    first_five += rank < 5 ? 1 : 0;
  }
}

double TopK::precision_at_1() const { return share(first, samples); }
double TopK::recall_at_5() const { return share(first_five, samples); }

}  // namespace frn
