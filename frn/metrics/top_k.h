// metrics/ holds what results are judged by. No torch, no models, no data: it can be linked alone.
#pragma once

#include <cstdint>
#include <span>

namespace frn {

// The paper's two measures (section 4.1): Precision@1, the share of samples whose label has the highest score, and
// Recall@5, the share whose label is among the five highest. With fewer than five classes Recall@5 is 1.
//
// Equal scores go to the lower class first, as torch.sort(stable=True) has it; a label whose score is not a number is
// never right.
struct TopK {
  int64_t samples = 0;
  int64_t first = 0;  // labels with the highest score
  int64_t first_five = 0;

  // scores [N, classes], one sample after the other; labels [N]. Throws frn::Error when they do not fit together.
  void add(std::span<const float> scores, int64_t classes, std::span<const int64_t> labels);

  double precision_at_1() const;  // 0 without samples
  double recall_at_5() const;
};

}  // namespace frn
