// frn eval: how a run's network does on a set, by the metrics of its task.
#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstdio>
#include <map>

#include "frn/cli/commands.h"
#include "frn/cli/output.h"
#include "frn/cli/progress.h"
#include "frn/cli/threads.h"
#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/core/whole_file.h"
#include "frn/data/drawing.h"
#include "frn/train/evaluate.h"
#include "frn/train/run_folder.h"

namespace frn::cli {
namespace {

struct EvalOptions {
  std::string run;
  std::string data;
  std::string split = "validation";
  std::string weights = "auto";
  int64_t images_at_once = 0;
  int64_t workers = 1;
  int threads = default_threads();
  bool as_json = false;
};

const std::map<std::string, train::Weights> kWeights{
    {"auto", train::Weights::kAuto}, {"plain", train::Weights::kPlain}, {"averaged", train::Weights::kAveraged}};

void check_classes(const train::TrainedModel& trained, const data::Dataset& dataset, const std::string& name) {
  if (trained.classes == dataset.classes()) return;
  throw Error("eval",
              fmt::format("the data must have the classes the run was trained on, {} ('{}', ...), but {} has {} "
                          "('{}', ...)",
                          trained.classes.size(), one_line(trained.classes.at(0)), name, dataset.classes().size(),
                          one_line(dataset.classes().at(0))));
}

std::vector<data::DrawnBox> drawn_boxes(const std::vector<train::Description::NamedBox>& boxes, bool with_scores) {
  std::vector<data::DrawnBox> out;
  for (const auto& [box, name, score] : boxes) {
    out.push_back({box.left, box.top, box.right, box.bottom,
                   with_scores ? fmt::format("{} {:.0f}%", name, 100 * score) : name, data::colour_of(box.label)});
  }
  std::reverse(out.begin(), out.end());  // the best on top
  return out;
}

// Runs may come from others: what is written into them stays in them.
void write_own_file(const std::filesystem::path& path, const std::string& text) {
  refuse_link(path, "eval");
  write_whole_file(path, text, "eval");
}

// "000012.png", as draw_examples calls them.
bool is_example(const std::string& name) {
  return name.size() >= 10 && name.ends_with(".png") &&
         std::all_of(name.begin(), name.end() - 4, [](unsigned char c) { return std::isdigit(c) != 0; });
}

// Those of an earlier evaluation, which may be of another set.
void remove_examples(const std::filesystem::path& folder) {
  std::error_code error;
  std::vector<std::filesystem::path> old;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    if (is_example(entry.path().filename().string())) old.push_back(entry.path());
  }
  for (const auto& path : old) std::filesystem::remove(path, error);
}

struct Example {
  std::string name, png;
};

// The truth on the left, what was found on the right, for `frn report`.
std::vector<Example> draw_examples(const data::Dataset& dataset, const std::vector<train::Details::Example>& examples) {
  std::vector<Example> out;
  for (const auto& example : examples) {
    const auto source = dataset.open(example.index);
    if (!source) break;  // a set that gives tensors
    const auto size = source->size();
    const auto image = source->read({0, 0, size.height, size.width}, size);
    const auto both = data::side_by_side(data::drawn(image, drawn_boxes(example.truths, false)),
                                         data::drawn(image, drawn_boxes(example.found, true)));
    out.push_back({fmt::format("{:06}.png", example.index), data::to_png(both)});
  }
  return out;
}

void write_examples(const std::filesystem::path& folder, const std::vector<Example>& examples) {
  refuse_link(folder, "eval");
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error("eval", "cannot make the folder " + folder.string() + ": " + error.message());
  remove_examples(folder);
  for (const auto& example : examples) write_own_file(folder / example.name, example.png);
}

void run(const EvalOptions& options) {
  set_threads(options.threads);
  const train::RunFolder folder{options.run};
  const auto trained = train::open_trained(folder, kWeights.at(options.weights));
  for (const auto& sentence : trained.damaged) fmt::print(stderr, "frn: {}\n", sentence);
  const auto text = options.data.empty() ? trained.config.data : options.data;
  const auto name = data::parse_data_name(text);
  const auto dataset =
      data::open_dataset(name, options.split == "train" ? data::Split::kTrain : data::Split::kValidation);
  check_classes(trained, *dataset, text);
  const auto task = train::make_task(trained.config, *trained.model, *dataset);
  std::optional<Progress> progress;
  if (!options.as_json) progress.emplace("image", 0, dataset->size());
  const auto result =
      train::evaluate(trained.model, *task, dataset, train::evaluation_pipeline(trained.config, trained.facts),
                      {.images_at_once = options.images_at_once > 0 ? options.images_at_once
                                                                    : train::images_to_evaluate_at_once(trained.config),
                       .workers = options.workers,
                       .channels_last = trained.config.channels_last(),
                       .bfloat16 = trained.config.bfloat16(),
                       .progress = [&](int64_t done) {
                         if (progress) progress->show(done, "");
                       }});
  progress.reset();
  for (const auto& sample : result.broken) {
    fmt::print(stderr, "frn: cannot read {}: {} (it does not count)\n", one_line(sample.name), one_line(sample.reason));
  }
  Value out{{"checkpoint", trained.checkpoint.filename().string()},
            {"step", trained.step},
            {"weights", trained.averaged ? "averaged" : "plain"},
            {"data", text},
            {"split", options.split},
            {"samples", result.samples},
            {"unreadable", result.broken.size()}};
  for (const auto& [key, value] : result.values) out[key] = value;
  const auto details = result.score->details();
  for (const auto& [key, value] : details.entries.as_table()) out[key] = value;
  const bool keeps = folder.holds_run();  // a folder to share stays as it is
  const bool has_examples = keeps && trained.model->row().detects;
  const auto examples = has_examples ? draw_examples(*dataset, details.examples) : std::vector<Example>();
  if (has_examples) {
    out["examples"] = Value::empty_list();
    for (const auto& example : examples) out["examples"].push_back(example.name);
  }
  // Shown before anything is written: the folder may be of somebody who lets us read only.
  if (options.as_json) {
    print_json(out);
  } else {
    fmt::print("{} {} of {} ({} weights of step {})\n", result.samples,
               options.split == "train" ? "training images" : "validation images", text,
               trained.averaged ? "averaged" : "plain", trained.step);
    for (const auto& metric : task->metrics()) fmt::print("{} {}  ", metric.title, shown(metric, result[metric.key]));
    fmt::print("loss {:.4f}\n{}", result["loss"], details.text);
    std::fflush(stdout);
  }
  if (!keeps) return;
  for (const auto& file : details.files) write_own_file(folder.path / file.name, file.text);
  if (has_examples) write_examples(folder.path / "examples", examples);
  write_own_file(folder.path / "eval.json", to_json(out, 2) + "\n");
  if (options.as_json) return;
  fmt::print("wrote {}", (folder.path / "eval.json").string());
  for (const auto& file : details.files) fmt::print(" and {}", (folder.path / file.name).string());
  fmt::print("\n");
}

}  // namespace

Command eval_command() {
  auto options = std::make_shared<EvalOptions>();
  return {.name = "eval",
          .help = "Measure a trained network: Precision@1 and Recall@5, or COCO's 12 numbers",
          .options = {{.name = "--run",
                       .to = &options->run,
                       .help = "Folder of the run, which frn train --out made, or one that frn export wrote",
                       .value = "DIR",
                       .required = true},
                      {.name = "--data",
                       .to = &options->data,
                       .help = "Images to measure on, with the classes of the training",
                       .value = "KIND:DIR",
                       .default_text = "the run's own data"},
                      {.name = "--split",
                       .to = &options->split,
                       .help = "Part of the data",
                       .choices = {"validation", "train"}},
                      {.name = "--weights",
                       .to = &options->weights,
                       .help = "Weights of the newest checkpoint (that of the best validation is not kept); auto: the "
                               "averaged ones if the run kept an average",
                       .choices = {"auto", "plain", "averaged"}},
                      {.name = "--images-at-once",
                       .to = &options->images_at_once,
                       .help = "Images that pass through the network at a time",
                       .default_text = "as in the run's own validations",
                       .range = Range{1}},
                      {.name = "--workers",
                       .to = &options->workers,
                       .help = "Threads that load images; 0: the network's thread does it",
                       .range = Range{0, 1024}},
                      {.name = "--threads",
                       .to = &options->threads,
                       .help = "Processor threads of the network",
                       .default_text = "all processors",
                       .range = Range{1, 1024}},
                      {.name = "--json", .to = &options->as_json, .help = "Print JSON"}},
          .run = [options](const Given&) { run(*options); }};
}

}  // namespace frn::cli
