// What a run leaves to read.
#include "frn/train/records.h"

#include "tests/core/files.h"

namespace frn::train {
namespace {

class RecordsTest : public FolderTest {
 protected:
  static std::vector<Metric> metrics() { return {classification_metrics().begin(), classification_metrics().end()}; }

  // Rows of twelve steps of 32 images, and a last one of four steps, as 2,500 steps have them.
  static TrainRow row(int64_t number) {
    const bool last = number == 20;
    return {.step = last ? 244 : 12 * number,
            .values = {{"loss", 1.0 / static_cast<double>(number)},
                       {"precision_at_1", last ? 1.0 : 0.5},
                       {"recall_at_5", 0.75}},
            .samples = last ? 128 : 384};
  }
};

TEST_F(RecordsTest, TrainingAccuracyAtTheEndIsOverAFixedNumberOfImages) {
  const RunFolder folder{folder_};
  std::optional<Records> records(std::in_place, folder, 0, 7, metrics());
  EXPECT_FALSE(records->train_at_the_end());
  for (int64_t i = 1; i <= 18; ++i) records->add(row(i));
  // As after an interruption: the rows before it are in the log alone.
  records.reset();
  records.emplace(folder, 216, 7, metrics());
  for (int64_t i = 19; i <= 20; ++i) records->add(row(i));
  const auto end = records->train_at_the_end().value();
  EXPECT_EQ(end.step, 244);
  EXPECT_EQ(end.samples, 128 + 5 * 384);
  EXPECT_GE(end.samples, kImagesAtTheEnd);
  EXPECT_NEAR(end["precision_at_1"], (128 * 1.0 + 5 * 384 * 0.5) / 2048, 1e-12);
  EXPECT_NEAR(end["recall_at_5"], 0.75, 1e-12);
  Outcome outcome;
  outcome.step = 244;
  outcome.train = end;
  records->end(outcome, folder.metrics());
  EXPECT_EQ(parse_json(contents(folder.metrics()))["train"]["samples"], Value(2048));
}

TEST_F(RecordsTest, TheFirstMetricDecidesWhichValidationIsTheBest) {
  const auto best = [&](const Metric& metric) {
    std::filesystem::remove_all(folder_ / "run");
    std::filesystem::create_directory(folder_ / "run");
    Records records({folder_ / "run"}, 0, 7, {metric});
    int64_t step = 0;
    for (const double value : {3.0, 1.0, 2.0}) {
      records.add(ValidationRow{.step = ++step, .values = {{"loss", 0}, {"error", value}}, .samples = 10});
    }
    const auto log = RunLog::read(folder_ / "run" / "log.jsonl");
    EXPECT_EQ(metrics_in(log.at(0)), std::vector<Metric>{metric});
    return records.best_validation()->step;
  };
  EXPECT_EQ(best({"error", "error", MetricKind::kNumber, true}), 1);
  EXPECT_EQ(best({"error", "error", MetricKind::kNumber, false}), 2);
}

}  // namespace
}  // namespace frn::train
