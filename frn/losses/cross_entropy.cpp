#include "frn/losses/cross_entropy.h"

#include <ATen/ops/cross_entropy_loss.h>

#include "frn/core/error.h"
#include "frn/core/text.h"

namespace frn {

at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& labels, double label_smoothing) {
  if (logits.dim() != 2 || labels.dim() != 1 || labels.size(0) != logits.size(0)) {
    throw Error("cross_entropy", "logits and labels must have shapes [N, classes] and [N] but have " +
                                     shape_text(logits.sizes()) + " and " + shape_text(labels.sizes()));
  }
  if (!(label_smoothing >= 0 && label_smoothing < 1)) {
    throw Error("cross_entropy", "label smoothing must be from 0 to below 1 but is " + std::to_string(label_smoothing));
  }
  const bool narrow = logits.scalar_type() == at::kBFloat16 || logits.scalar_type() == at::kHalf;
  return at::cross_entropy_loss(narrow ? logits.to(at::kFloat) : logits, labels, /*weight=*/{}, at::Reduction::Mean,
                                /*ignore_index=*/-100, label_smoothing);
}

}  // namespace frn
