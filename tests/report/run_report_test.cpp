// A run directory's report shows its curves, numbers, layers and settings, of unfinished and of broken runs too.
#include "frn/report/run_report.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "frn/report/curves.h"
#include "tests/core/files.h"
#include "tests/report/run_folder.h"

namespace frn::report {
namespace {

class RunReport : public FolderTest {
 protected:
  static bool holds(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }
  std::string page() { return contents((run_report(run_.path), run_.path / "report.html")); }

  RunFolder run_{folder_ / "a run"};
};

TEST_F(RunReport, NothingIsWrittenNorShownThroughALink) {
  run_.fill(100);
  put(folder_ / "victim", "mine");
  for (const char* name : {"report.html", "curves.csv", "curves-loss.svg"}) {
    std::filesystem::remove(run_.path / name);
    std::filesystem::create_symlink(folder_ / "victim", run_.path / name);
    const auto error = error_of([&] { run_report(run_.path); });
    EXPECT_TRUE(holds(error, std::string(name) + " must be of this folder but is a symbolic link")) << error;
    std::filesystem::remove(run_.path / name);
  }
  run_.put("eval.json", R"({"classes":[{"name":"cat","objects":1}]})");
  std::filesystem::create_directories(run_.path / "examples");
  std::filesystem::create_symlink(folder_ / "victim", run_.path / "examples/000001.png");
  EXPECT_FALSE(holds(page(), "bWluZ")) << "the victim's bytes in base64";
  EXPECT_EQ(contents(folder_ / "victim"), "mine");
}

TEST_F(RunReport, AWholeRunGivesItsFiguresItsTableAndItsPage) {
  run_.fill(3000);
  const auto written = run_report(run_.path);
  std::vector<std::string> names;
  names.reserve(written.size());
  for (const auto& path : written) names.push_back(path.filename().string());
  EXPECT_EQ(names, (std::vector<std::string>{"curves-loss.svg", "curves-accuracy.svg", "curves-learning-rate.svg",
                                             "curves.csv", "report.html"}));
  const auto text = contents(written.back());
  EXPECT_TRUE(holds(text, "<h1>Run a run</h1>"));
  EXPECT_TRUE(holds(text, "resnetv2-20 with frn+tlu on cifar10. Finished after 3000 steps. P@1 89.53 %")) << text;
  EXPECT_TRUE(holds(text, "validation, best P@1"));
  EXPECT_TRUE(holds(text, "<dt>batch_per_device</dt><dd>32</dd>"));
  EXPECT_LT(text.find("<dt>model</dt>"), text.find("<dt>data</dt>")) << "settings stand in the order of the file";
  EXPECT_TRUE(holds(text, "<dt>lr_drops</dt><dd>0.33, 0.67, 0.9</dd>"));
  EXPECT_TRUE(holds(text, "<dt>validation.precision_at_1</dt><dd>0.8953</dd>"));
  EXPECT_TRUE(holds(text, "<td>stages.2.blocks.2.norm1</td><td class=\"number\">1.36</td>"));
  EXPECT_TRUE(holds(text, "70.00 %</td>"));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(run_.path), {}), 8) << "something was left behind";
}

TEST_F(RunReport, ThePageStandsAlone) {
  run_.fill(100);
  auto text = page();
  for (const std::string_view space : {"http://www.w3.org/2000/svg", "http://www.w3.org/1999/xlink"}) {
    for (size_t at; (at = text.find(space)) != std::string::npos;)
      text.erase(at, space.size());  // names, not addresses
  }
  EXPECT_FALSE(holds(text, "http"));
  EXPECT_FALSE(holds(text, "src="));
  EXPECT_FALSE(holds(text, "<link"));
  EXPECT_EQ(page(), page()) << "the same files give the same page";
}

// What frn eval leaves of a detector.
constexpr std::string_view kEvaluation = R"({"step": 40, "data": "coco:cells", "split": "validation", "samples": 87,
  "classes": [{"name": "red <b>", "objects": 12, "AP": 0.5, "AP50": 0.75, "AP75": 0.25, "AR": 0.6},
              {"name": "none", "objects": 0, "AP": null, "AP50": null, "AP75": null, "AR": null}],
  "precision_recall": [{"iou": 0.5, "precision": [1, 0.9, 0.2]}, {"iou": 0.75, "precision": [0.8, 0.1, 0]}]})";

TEST_F(RunReport, OfADetectorShowsClassesCurvesAndExamples) {
  run_.fill(100);
  run_.put("eval.json", kEvaluation);
  std::filesystem::create_directories(run_.path / "examples");
  run_.put("examples/000003.png", "Man");  // base64 of it is TWFu
  const auto text = page();
  EXPECT_TRUE(holds(text, "<td>red &lt;b&gt;</td><td class=\"number\">12</td><td class=\"number\">50.00</td>")) << text;
  EXPECT_TRUE(holds(text, "frn eval, 87 validation images of coco:cells, weights of step 40."));
  EXPECT_TRUE(holds(text, "src=\"data:image/png;base64,TWFu\""));
  EXPECT_TRUE(std::filesystem::exists(run_.path / "precision-recall.svg"));
}

TEST_F(RunReport, ExamplesAreThoseThatTheEvaluationNames) {
  run_.fill(100);
  std::string text(kEvaluation);
  text.insert(text.find('{') + 1, R"("examples": ["000003.png", "../000005.png", 7, "000009.png"], )");
  run_.put("eval.json", text);
  std::filesystem::create_directories(run_.path / "examples");
  run_.put("examples/000003.png", "Man");
  run_.put("examples/000004.png", "old");  // of an earlier evaluation
  run_.put("000005.png", "out");
  const auto shown = page();
  EXPECT_TRUE(holds(shown, "src=\"data:image/png;base64,TWFu\""));
  EXPECT_FALSE(holds(shown, "Image 000004"));
  EXPECT_FALSE(holds(shown, "Image 000005"));
}

TEST_F(RunReport, AnEvaluationThatIsNotOursIsPassedOver) {
  run_.fill(100);
  for (const auto* text : {"", "{", "[1, 2]", R"({"classes": 3})", R"({"classes": [{"name": 7, "objects": "many"}]})",
                           R"({"classes": [null], "precision_recall": [{"precision": [true, "x"]}]})"}) {
    run_.put("eval.json", text);
    EXPECT_TRUE(holds(page(), "Results")) << text;
  }
}

TEST_F(RunReport, EveryLineOfTheLogIsInTheCsv) {
  run_.fill(1000);
  const auto csv = csv_of(read_run(run_.path));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 1001);
  EXPECT_TRUE(csv.starts_with("step,epoch,train_loss,")) << csv.substr(0, 100);
  EXPECT_TRUE(holds(csv, "\n1,0.03,")) << csv.substr(0, 300);
}

TEST_F(RunReport, TheCsvOfAClassificationHasTheColumnsOfEarlierVersions) {
  run_.fill(20);
  const auto csv = csv_of(read_run(run_.path));
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "step,epoch,train_loss,train_precision_at_1,train_recall_at_5,lr,images_per_second,gradient_norm,"
            "validation_loss,validation_precision_at_1,validation_recall_at_5");
}

TEST_F(RunReport, ChartsOfAClassificationNameItsMetrics) {
  run_.fill(20);
  const auto charts = charts_of(read_run(run_.path));
  ASSERT_EQ(charts.size(), 3);
  std::vector<std::string> titles;
  for (const auto& curve : charts[1].chart.curves) titles.push_back(curve.title);
  EXPECT_EQ(titles, (std::vector<std::string>{"P@1 train", "P@1 val", "R@5 val"}));
  EXPECT_NEAR(charts[1].chart.curves[1].y.back(), 100 * (0.91 - 0.8 * std::exp(-4)), 1e-9) << "in per cent";
}

TEST_F(RunReport, ManyLinesAreDrawnAsMeansOfNeighbours) {
  run_.fill(3000);
  const auto charts = charts_of(read_run(run_.path));
  const auto& curves = charts.at(0).chart.curves;
  ASSERT_EQ(curves.size(), 2);
  EXPECT_EQ(curves[0].x.size(), 600);
  EXPECT_FALSE(curves[0].marked);
  EXPECT_NEAR(curves[0].x[0], 0.03, 1e-9);  // the mean of steps 1 to 5, of 100 per epoch
  EXPECT_EQ(curves[1].x.size(), 10);
  EXPECT_TRUE(curves[1].marked);
}

TEST_F(RunReport, ARunThatHasJustBegunIsShownAsFarAsItIs) {
  run_.train(1, 100);
  const auto text = page();
  EXPECT_TRUE(holds(text, "Not finished: 1 step so far."));
  EXPECT_FALSE(holds(text, "Settings"));
  EXPECT_FALSE(holds(text, "Last metrics"));
}

TEST_F(RunReport, ADivergedRunIsDrawnWithAGapAndSaysSo) {
  for (int64_t step = 1; step <= 50; ++step) run_.train(step, 50);
  run_.log.append({{"event", "train"}, {"step", 51}, {"epoch", 31.0}, {"loss", 1e30}, {"lr", 0.1}});
  run_.log.append({{"event", "train"}, {"step", 52}, {"epoch", 31.5}, {"loss", NAN}, {"lr", 0.1}});
  run_.log.append({{"event", "diverged"}, {"step", 52}, {"layer", "stages.0.blocks.0.norm1"}});
  const auto text = page();
  EXPECT_TRUE(holds(text, "Diverged after 52 steps."));
  EXPECT_TRUE(holds(text, "layer stages.0.blocks.0.norm1"));
  EXPECT_TRUE(charts_of(read_run(run_.path)).at(0).chart.y_log);
}

TEST_F(RunReport, AResumedRunIsNotFinishedUntilItEndsAgain) {
  run_.fill(100);
  run_.log.append({{"event", "resume"}, {"step", 100}});
  EXPECT_TRUE(holds(page(), "Not finished: 100 steps so far."));
}

TEST_F(RunReport, AnInterruptedRunIsNotFinishedAndItsEndIsReadable) {
  run_.train(1, 100);
  run_.log.append({{"event", "end"}, {"step", 1}, {"status", "interrupted"}, {"train", {{"loss", 1}}}});
  const auto text = page();
  EXPECT_TRUE(holds(text, "Not finished: 1 step so far."));
  EXPECT_TRUE(holds(text, "<td>end</td><td>status interrupted</td>"));
}

// As a task of another kind writes it: two losses, a share, a count, and an error that should be small.
class DetectionReport : public RunReport {
 protected:
  void SetUp() override {
    RunReport::SetUp();
    const std::vector<Metric> metrics{{"error", "Error, px", MetricKind::kNumber, false},
                                      {"ap", "AP", MetricKind::kShare, true},
                                      {"boxes/image", "Boxes", MetricKind::kCount, true}};
    run_.log.append({{"event", "start"}, {"step", 0}, {"metrics", to_value(metrics)}});
    for (int i = 1; i <= 4; ++i) {
      run_.log.append(
          {{"event", "train"}, {"step", i}, {"epoch", i}, {"loss", 3.0 / i}, {"box_loss", 2.0 / i}, {"lr", 0.1}});
      run_.log.append({{"event", "validation"},
                       {"step", i},
                       {"epoch", i},
                       {"loss", 4.0 / i},
                       {"error", std::abs(i - 3) + 2.5},
                       {"ap", 0.1 * i},
                       {"boxes/image", i}});
    }
  }
};

TEST_F(DetectionReport, EveryMetricIsDrawnAsWhatItIs) {
  const auto charts = charts_of(read_run(run_.path));
  std::vector<std::string> files;
  for (const auto& chart : charts) files.push_back(chart.file);
  EXPECT_EQ(files, (std::vector<std::string>{"curves-loss", "curves-accuracy", "curves-learning-rate", "curves-error",
                                             "curves-boxes-image"}));
  ASSERT_EQ(charts[0].chart.curves.size(), 3);
  EXPECT_EQ(charts[0].chart.curves[2].title, "box_loss train");
  ASSERT_EQ(charts[1].chart.curves.size(), 1);
  EXPECT_EQ(charts[1].chart.curves[0].title, "AP val");
  EXPECT_NEAR(charts[1].chart.curves[0].y.back(), 40, 1e-9);
  EXPECT_EQ(charts[3].chart.y_label, "Error, px");
  EXPECT_EQ(charts[3].chart.curves[0].y, (std::vector<double>{4.5, 3.5, 2.5, 3.5})) << "not in per cent";
}

TEST_F(DetectionReport, TheBestIsByTheFirstMetricAndItsDirection) {
  EXPECT_EQ(best_validation(read_run(run_.path))->step, 3);
  const auto text = page();
  EXPECT_TRUE(holds(text, "Error, px 3.5 in the last validation, 2.5 in the best (step 3).")) << text;
  EXPECT_TRUE(holds(text, "validation, best Error, px"));
  EXPECT_TRUE(holds(text, "<td class=\"number\">40.00 %</td>"));
  EXPECT_FALSE(holds(text, "P@1"));
}

TEST_F(DetectionReport, TheCsvHasAColumnForEveryKey) {
  const auto csv = csv_of(read_run(run_.path));
  EXPECT_EQ(csv.substr(0, csv.find('\n')),
            "step,epoch,train_loss,train_error,train_ap,train_boxes/image,train_box_loss,lr,images_per_second,"
            "gradient_norm,validation_loss,validation_error,validation_ap,validation_boxes/image");
  EXPECT_TRUE(holds(csv, "\n4,4,0.75,,,,0.5,0.1,,,1,3.5,0.4,4\n")) << csv;
}

TEST_F(DetectionReport, KeysThatWouldBeTheSameFileGetTwo) {
  const std::vector<Metric> metrics{{"a/b", "1", MetricKind::kNumber, true}, {"a b", "2", MetricKind::kNumber, true}};
  run_.log.append({{"event", "resume"}, {"step", 4}, {"metrics", to_value(metrics)}});
  run_.log.append({{"event", "validation"}, {"step", 5}, {"epoch", 5}, {"a/b", 1}, {"a b", 2}});
  const auto charts = charts_of(read_run(run_.path));
  ASSERT_EQ(charts.size(), 4);
  EXPECT_EQ(charts[2].file, "curves-a-b");
  EXPECT_EQ(charts[3].file, "curves-a-b-2");
}

TEST_F(RunReport, WithoutEpochsTheAxisIsSteps) {
  run_.log.append({{"event", "train"}, {"step", 1}, {"loss", 2.0}});
  run_.log.append({{"event", "train"}, {"step", 2}, {"loss", 1.0}});
  const auto charts = charts_of(read_run(run_.path));
  ASSERT_EQ(charts.size(), 1) << "without a rate or an accuracy there is no chart of them";
  EXPECT_EQ(charts[0].chart.x_label, "step");
  EXPECT_EQ(charts[0].chart.curves[0].x, (std::vector<double>{1, 2}));
}

TEST_F(RunReport, TextOfTheRunNeverBecomesMarkup) {
  run_.fill(20);
  run_.log.append({{"event", "broken_image"}, {"step", 20}, {"file", "<script>.jpg"}});
  run_.put("config.toml", "model = \"<script>\"\n");
  run_.put("metrics.json", R"({"<script>": "<script>"})");
  EXPECT_FALSE(holds(page(), "<script>"));
}

TEST_F(RunReport, OddLinesAreShownOrLeftOutButNeverEndIt) {
  run_.train(1, 10);
  run_.log.append({{"event", 5}, {"step", "x"}});
  run_.log.append({{"event", "layers"}, {"layers", Value::List{1, {{"name", 7}}}}});
  run_.log.append({{"event", "train"}, {"step", 1e300}, {"loss", "high"}});
  EXPECT_TRUE(holds(page(), "</html>"));
}

TEST_F(RunReport, WhatIsNoRunOrHasNothingToShowSaysSo) {
  EXPECT_NE(error_of([&] { run_report(folder_ / "nothing"); }).find("must be the folder of a run but is not one"),
            std::string::npos);
  EXPECT_NE(error_of([&] { run_report(folder_); }).find("has no log.jsonl"), std::string::npos);
  EXPECT_NE(error_of([&] { run_report(run_.path); }).find("no line of training or validation"), std::string::npos);
}

TEST_F(RunReport, ADamagedConfigOrMetricsFileIsNamed) {
  run_.train(1, 10);
  run_.put("config.toml", "model = \n");
  EXPECT_NE(error_of([&] { run_report(run_.path); }).find("config.toml: line 1 is not TOML"), std::string::npos);
  run_.put("config.toml", "");
  run_.put("metrics.json", "{\"a\":");
  EXPECT_NE(error_of([&] { run_report(run_.path); }).find("metrics.json: it must be a JSON object"), std::string::npos);
}

}  // namespace
}  // namespace frn::report
