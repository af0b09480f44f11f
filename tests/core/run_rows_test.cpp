// Lines of a run's log: what is written is read back, whatever a task measures, and logs of earlier versions stay
// readable.
#include "frn/core/run_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace frn {
namespace {

TEST(RunRows, TrainingLinesComeBackWithTheirTasksValues) {
  const TrainRow row{.step = 12,
                     .epoch = 0.5,
                     .values = {{"loss", 1.25}, {"box_loss", 0.5}, {"positives", 17}},
                     .lr = 0.1,
                     .images_per_second = 300,
                     .wait_share = 0.25,
                     .gradient_norm = 2,
                     .samples = 384};
  const auto line = parse_json(to_json(to_value(row)));
  EXPECT_EQ(to_json(line),
            R"({"step":12,"epoch":0.5,"loss":1.25,"box_loss":0.5,"positives":17.0,"lr":0.1,"images_per_second":300.0,)"
            R"("wait_share":0.25,"gradient_norm":2.0,"samples":384})");
  const auto read = train_row(line);
  EXPECT_EQ(read.values, row.values);
  EXPECT_EQ(read.step, 12);
  EXPECT_EQ(read.samples, 384);
  EXPECT_EQ(read.lr, 0.1);
  EXPECT_EQ(read["positives"], 17);
  EXPECT_TRUE(std::isnan(read["precision_at_1"]));
}

TEST(RunRows, LinesOfEarlierVersionsAreRead) {
  const auto line = parse_json(
      R"({"event":"validation","step":24,"epoch":1.0,"loss":null,"precision_at_1":0.5,"recall_at_5":0.75,"samples":1000})");
  const auto row = validation_row(line);
  EXPECT_TRUE(std::isnan(row["loss"]));
  EXPECT_EQ(row["precision_at_1"], 0.5);
  EXPECT_EQ(row.values.size(), 3);
  EXPECT_EQ(row.samples, 1000);
  const auto metrics = metrics_in(line);
  ASSERT_EQ(metrics.size(), 2);
  EXPECT_EQ(metrics[0].title, "P@1");
}

TEST(RunRows, StepsThatCannotBeAreZero) {
  EXPECT_EQ(train_row(parse_json(R"({"step":1e300,"samples":-1e300})")).step, 0);
  EXPECT_EQ(train_row(parse_json(R"({"step":"many"})")).step, 0);
}

TEST(RunRows, LayersComeBack) {
  const std::vector<LayerState> layers{{"stem", 0.5, 0.25}, {"head", 2, std::nullopt}};
  const auto read = layer_states(parse_json(to_json(Value{{"layers", to_value(layers)}})));
  ASSERT_EQ(read.size(), 2);
  EXPECT_EQ(read[0].clipped, 0.25);
  EXPECT_FALSE(read[1].clipped);
  EXPECT_EQ(read[1].scale, 2);
}

TEST(Metrics, ComeBackFromFiles) {
  const std::vector<Metric> metrics{{"error", "mean error", MetricKind::kNumber, false},
                                    {"hits", "hits", MetricKind::kShare, true}};
  EXPECT_EQ(metrics_in(parse_json(to_json(Value{{"metrics", to_value(metrics)}}))), metrics);
}

TEST(Metrics, SayThemselvesHowTheyAreShown) {
  const auto& share = classification_metrics().front();
  EXPECT_EQ(shown(share, 0.84021), "84.02 %");
  EXPECT_EQ(shown_number(share, 0.5), 50);
  EXPECT_EQ(shown(find_metric({}, "loss"), 0.45), "0.4500");
  EXPECT_EQ(shown(find_metric({}, "box_loss"), 0.45), "0.4500");
  EXPECT_EQ(shown({"n", "n", MetricKind::kCount, true}, 17), "17");
  EXPECT_EQ(shown(find_metric({}, "error"), 3.14159), "3.142");
  EXPECT_EQ(shown(share, std::numeric_limits<double>::quiet_NaN()), "–");
}

TEST(Metrics, KnowWhichWayIsBetter) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const Metric error{"error", "error", MetricKind::kNumber, false};
  EXPECT_TRUE(is_better(error, 1, 2));
  EXPECT_FALSE(is_better(error, 2, 1));
  EXPECT_FALSE(is_better(error, 1, 1));
  EXPECT_TRUE(is_better(error, 1, nan));
  EXPECT_FALSE(is_better(error, nan, 1));
  EXPECT_TRUE(is_better(classification_metrics().front(), 2, 1));
}

}  // namespace
}  // namespace frn
