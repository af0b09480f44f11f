#include "frn/losses/focal.h"

#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/one_hot.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tensor.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/losses/focal_loops.h"

namespace frn {
namespace {

constexpr int64_t kBackgroundPlace = -1;
constexpr int64_t kUncountedPlace = -2;
constexpr int64_t kValuesAtOnce = 1 << 15;  // of a thread: small enough to stay in its cache

struct Problem {
  const float* logits;
  const int64_t* classes;  // of places
  const double* weights;   // of images
  float* gradient;
  int64_t places;  // of an image
  int64_t count;   // of classes
  float alpha;
};

// Places first to last of one image. Everything is taken for background first: nearly everything is.
double run_places(const Problem& problem, int64_t image, int64_t first, int64_t last) {
  const int64_t begin = (image * problem.places + first) * problem.count;
  const double weight = problem.weights[image];
  const auto scale = static_cast<float>(weight);
  double sum = losses::focal_background(problem.logits + begin, (last - first) * problem.count, problem.alpha, scale,
                                        problem.gradient + begin);
  for (int64_t place = first; place < last; ++place) {
    const int64_t label = problem.classes[image * problem.places + place];
    if (label == kBackgroundPlace) continue;
    const int64_t row = (image * problem.places + place) * problem.count;
    for (int64_t c = 0; c < problem.count && label == kUncountedPlace; ++c) {
      sum -= losses::focal_background(problem.logits[row + c], problem.alpha).loss;
      problem.gradient[row + c] = 0;
    }
    if (label < 0) continue;
    const float logit = problem.logits[row + label];
    const auto object = losses::focal_object(logit, problem.alpha);
    sum += object.loss - losses::focal_background(logit, problem.alpha).loss;
    problem.gradient[row + label] = static_cast<float>(object.gradient * weight);
  }
  return sum * weight;
}

// The same whatever the number of threads: parts are fixed, and are added up in their order.
double run_all(const Problem& problem, int64_t images) {
  const int64_t at_once = std::max<int64_t>(1, kValuesAtOnce / problem.count);
  const int64_t parts = (problem.places + at_once - 1) / at_once;
  std::vector<double> sums(static_cast<size_t>(images * parts));
  at::parallel_for(0, images * parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t first = i % parts * at_once;
      sums[static_cast<size_t>(i)] = run_places(problem, i / parts, first, std::min(first + at_once, problem.places));
    }
  });
  return std::accumulate(sums.begin(), sums.end(), 0.0);
}

class FusedFocal : public torch::autograd::Function<FusedFocal> {
 public:
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& logits,
                            const at::Tensor& classes, const at::Tensor& weights, double alpha) {
    const auto values = logits.contiguous();
    auto gradient = at::empty_like(values);
    const Problem problem{.logits = values.const_data_ptr<float>(),
                          .classes = classes.const_data_ptr<int64_t>(),
                          .weights = weights.const_data_ptr<double>(),
                          .gradient = gradient.mutable_data_ptr<float>(),
                          .places = logits.size(1),
                          .count = logits.size(2),
                          .alpha = static_cast<float>(alpha)};
    const double loss = run_all(problem, logits.size(0));
    context->save_for_backward({gradient});
    return at::tensor(loss, logits.options());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    return {context->get_saved_variables()[0] * gradients[0], {}, {}, {}};
  }
};

// Any device, type and gamma, from torch's own operators.
at::Tensor composed_focal(const at::Tensor& logits, const at::Tensor& classes, const at::Tensor& weights, double alpha,
                          double gamma) {
  const auto place = classes.to(logits.device());
  const auto truth = (at::one_hot(place.clamp_min(0), logits.size(2)) * (place >= 0).unsqueeze(2)).to(logits);
  const auto p = at::sigmoid(logits);
  const auto entropy = at::binary_cross_entropy_with_logits(logits, truth, {}, {}, at::Reduction::None);
  const auto wrong = p * (1 - truth) + (1 - p) * truth;
  const auto factor = alpha * truth + (1 - alpha) * (1 - truth);
  const auto counted = (place != kUncountedPlace).unsqueeze(2).to(logits);
  const auto sums = (factor * wrong.pow(gamma) * entropy * counted).sum({1, 2});
  return (sums * weights.to(sums)).sum();
}

void check_arguments(const at::Tensor& logits, const at::Tensor& classes, const at::Tensor& weights, double alpha,
                     double gamma) {
  const bool fits = logits.dim() == 3 && classes.dim() == 2 && weights.dim() == 1 &&
                    classes.size(0) == logits.size(0) && classes.size(1) == logits.size(1) &&
                    weights.size(0) == logits.size(0);
  if (!fits) {
    throw Error("focal_loss",
                "logits, classes and weights must have shapes [N, places, classes], [N, places] and [N] "
                "but have " +
                    shape_text(logits.sizes()) + ", " + shape_text(classes.sizes()) + " and " +
                    shape_text(weights.sizes()));
  }
  if (classes.scalar_type() != at::kLong || weights.scalar_type() != at::kDouble || !classes.is_cpu() ||
      !weights.is_cpu()) {
    throw Error("focal_loss", "classes must be int64 and weights float64, both on the CPU, but are not");
  }
  if (!(alpha >= 0 && alpha <= 1) || !(gamma >= 0)) {
    throw Error("focal_loss", "alpha must be from 0 to 1 and gamma at least 0 but are " + std::to_string(alpha) +
                                  " and " + std::to_string(gamma));
  }
  if (classes.numel() == 0) return;
  const auto lowest = classes.min().item<int64_t>();
  const auto highest = classes.max().item<int64_t>();
  if (lowest < kUncountedPlace || highest >= logits.size(2)) {
    throw Error("focal_loss", "classes must be -2, -1 or from 0 to below the " + std::to_string(logits.size(2)) +
                                  " classes but go from " + std::to_string(lowest) + " to " + std::to_string(highest));
  }
}

}  // namespace

at::Tensor focal_loss(const at::Tensor& logits, const at::Tensor& classes, const at::Tensor& weights, double alpha,
                      double gamma) {
  check_arguments(logits, classes, weights, alpha, gamma);
  const bool narrow = logits.scalar_type() == at::kBFloat16 || logits.scalar_type() == at::kHalf;
  const auto wide = narrow ? logits.to(at::kFloat) : logits;
  if (!wide.is_cpu() || wide.scalar_type() != at::kFloat || gamma != kFocalGamma) {
    return composed_focal(wide, classes, weights, alpha, gamma);
  }
  return FusedFocal::apply(wide, classes.contiguous(), weights.contiguous(), alpha);
}

}  // namespace frn
