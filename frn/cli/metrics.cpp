// frn metrics: what results are worth, computed from files.
#include <fmt/format.h>

#include <map>

#include "frn/cli/commands.h"
#include "frn/cli/output.h"
#include "frn/cli/threads.h"
#include "frn/core/text.h"
#include "frn/metrics/coco_files.h"

namespace frn::cli {
namespace {

struct MetricsOptions {
  std::string truths;
  std::string detections;
  std::vector<int64_t> max_detections{1, 10, 100};
  int threads = default_threads();
  bool per_class = false;
  bool as_json = false;
};

// Entries that contradict each other do not end the evaluation, nor do they end COCO's own.
void print_problems(const std::string& path, const std::vector<CocoProblem>& problems) {
  constexpr size_t kMost = 3;
  for (size_t i = 0; i < std::min(kMost, problems.size()); ++i) {
    fmt::print(stderr, "frn: {}: {}\n", path, problems[i].text);
  }
  if (problems.size() > kMost) fmt::print(stderr, "frn: {}: {} more of this kind\n", path, problems.size() - kMost);
}

std::map<int64_t, std::string> names_of(const std::vector<CocoCategory>& categories) {
  std::map<int64_t, std::string> out;
  for (const auto& category : categories) {
    out[category.id] = category.name.empty() ? std::to_string(category.id) : category.name;
  }
  return out;
}

std::string shown(double value) { return value < 0 ? "-" : fmt::format("{:.3f}", value); }

// What the numbers are means of, in the order of named_values.
std::vector<std::string> descriptions(const CocoScores& scores) {
  const auto most = scores.max_detections.back();
  std::vector<std::string> out{
      fmt::format("precision, IoU 0.50 to 0.95, at most {} detections per image and class", most),
      "precision, IoU 0.50",
      "precision, IoU 0.75",
      "precision, objects up to 32x32 pixels",
      "precision, objects from 32x32 to 96x96 pixels",
      "precision, objects from 96x96 pixels on"};
  for (const int64_t count : scores.max_detections) {
    out.push_back(fmt::format("recall, at most {} detection{} per image and class", count, count == 1 ? "" : "s"));
  }
  out.insert(out.end(), {"recall, objects up to 32x32 pixels", "recall, objects from 32x32 to 96x96 pixels",
                         "recall, objects from 96x96 pixels on"});
  return out;
}

void print(const CocoScores& scores, const CocoFile& file, bool per_class) {
  const auto about = descriptions(scores);
  size_t line = 0;
  for (const auto& [key, value] : named_values(scores)) {
    fmt::print("{:<8}{:>7}  average {}\n", key, shown(value), about.at(line++));
  }
  if (!per_class) return;
  fmt::print("\n{:<24}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "class", "objects", "AP", "AP50", "AP75",
             fmt::format("AR{}", scores.max_detections.back()));
  const auto names = names_of(file.categories);
  for (const auto& category : scores.categories) {
    fmt::print("{:<24}{:>9}{:>9}{:>9}{:>9}{:>9}\n", one_line(names.at(category.id)), category.truths,
               shown(category.ap), shown(category.ap50), shown(category.ap75), shown(category.ar));
  }
}

Value to_value(const CocoScores& scores, const CocoFile& file) {
  Value out;
  for (const auto& [key, value] : named_values(scores)) out[key] = value;
  const auto names = names_of(file.categories);
  auto classes = Value::empty_list();
  for (const auto& category : scores.categories) {
    classes.push_back({{"id", category.id},
                       {"name", names.at(category.id)},
                       {"objects", category.truths},
                       {"AP", category.ap},
                       {"AP50", category.ap50},
                       {"AP75", category.ap75},
                       {fmt::format("AR{}", scores.max_detections.back()), category.ar}});
  }
  out["classes"] = std::move(classes);
  return out;
}

void coco(const MetricsOptions& options) {
  const auto file = read_coco_truths(options.truths);
  print_problems(options.truths, file.problems);
  const auto detections = read_coco_detections(options.detections);
  const auto scores =
      evaluate_coco(file, detections, {.max_detections = options.max_detections, .threads = options.threads});
  if (options.as_json) return print_json(to_value(scores, file));
  print(scores, file, options.per_class);
}

Command coco_command() {
  auto options = std::make_shared<MetricsOptions>();
  return {.name = "coco",
          .help = "COCO's average precision and recall of boxes, as pycocotools has them",
          .options = {{.name = "GT",
                       .to = &options->truths,
                       .help = "What is to be found: COCO annotations",
                       .required = true},
                      {.name = "DETECTIONS",
                       .to = &options->detections,
                       .help = "What was found: a list of image_id, category_id, bbox and score",
                       .required = true},
                      {.name = "--max-detections",
                       .to = &options->max_detections,
                       .help = "How many detections count per image and class, best first; precision takes the most",
                       .value = "N,N,N",
                       .range = Range{1},
                       .separator = ',',
                       .count = 3},
                      {.name = "--per-class", .to = &options->per_class, .help = "Also a line for each class"},
                      {.name = "--threads",
                       .to = &options->threads,
                       .help = "Processor threads",
                       .default_text = "all processors",
                       .range = Range{1, 1024}},
                      {.name = "--json", .to = &options->as_json, .help = "Print JSON; -1 stands for no objects"}},
          .run = [options](const Given&) { coco(*options); }};
}

}  // namespace

Command metrics_command() {
  return {.name = "metrics", .help = "Judge results that are in files", .commands = {coco_command()}};
}

}  // namespace frn::cli
