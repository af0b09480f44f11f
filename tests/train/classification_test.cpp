// A classification's score takes tensors as models give them.
#include "frn/train/classification.h"

#include <ATen/ops/randint.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/sort.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "frn/core/error.h"

namespace frn::train {
namespace {

data::Batch batch_of(const at::Tensor& labels) { return data::make_batch(at::zeros({labels.size(0), 1}), labels); }

TEST(Classification, ScoreEqualsASortedList) {
  const auto logits = at::randn({200, 12});
  const auto labels = at::randint(12, {200});
  const auto hits = std::get<1>(at::sort(logits, /*stable=*/true, 1, /*descending=*/true)).eq(labels.unsqueeze(1));
  const auto score = Classification().make_score();
  score->add({logits.narrow(0, 0, 50)}, batch_of(labels.narrow(0, 0, 50)));
  // Of another type and layout.
  score->add({logits.narrow(0, 50, 150).to(at::kDouble).t().contiguous().t()}, batch_of(labels.narrow(0, 50, 150)));
  EXPECT_DOUBLE_EQ(score->values()[0], hits.narrow(1, 0, 1).sum().item<double>() / 200);
  EXPECT_DOUBLE_EQ(score->values()[1], hits.narrow(1, 0, 5).sum().item<double>() / 200);
}

TEST(Classification, ALabelThatTheNetworkHasNoOutputForIsNamedWithItsSample) {
  auto batch = batch_of(at::tensor({0, 4}, at::kLong));
  batch.names = {"a.png", "b.png"};
  try {
    Classification().losses({at::zeros({2, 4})}, batch, {});
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(),
                 "[classification] labels must be from 0 to 3, as the network has 4 outputs, but b.png has 4");
  }
}

TEST(Classification, NamesOfClassesAreShownOnOneLine) {
  const Classification task({.classes = {"cat\x1b[31m\nfrn: all fine", "dog"}});
  const auto shown =
      task.describe({at::tensor({1.0F, 0.0F}).unsqueeze(0)}, batch_of(at::tensor({0}, at::kLong)), 0, {});
  EXPECT_EQ(std::count(shown.text.begin(), shown.text.end(), '\n'), 2) << shown.text;
  EXPECT_EQ(shown.text.find('\x1b'), std::string::npos) << shown.text;
}

TEST(Classification, OutputsAndLabelsThatDoNotFitAreNamed) {
  const auto score = Classification().make_score();
  const auto message = [&](const at::Tensor& logits, const at::Tensor& labels) -> std::string {
    try {
      score->add({logits}, batch_of(labels));
    } catch (const Error& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_EQ(message(at::zeros({2, 3, 1}), at::tensor({0, 1}, at::kLong)),
            "[classification] logits and labels must have shapes [N, classes] and [N] but have [2, 3, 1] and [2]");
  EXPECT_EQ(message(at::zeros({2, 3}), at::tensor({0}, at::kLong)),
            "[classification] logits and labels must have shapes [N, classes] and [N] but have [2, 3] and [1]");
  EXPECT_EQ(message(at::zeros({1, 3}), at::tensor({3}, at::kLong)),
            "[top_k] labels must be from 0 to below the 3 classes but one is 3");
}

}  // namespace
}  // namespace frn::train
