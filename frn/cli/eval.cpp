// frn eval: Precision@1 and Recall@5 of a run's network on a set.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "frn/cli/commands.h"
#include "frn/cli/progress.h"
#include "frn/core/error.h"
#include "frn/core/whole_file.h"
#include "frn/train/evaluate.h"
#include "frn/train/run_folder.h"

namespace frn::cli {
namespace {

using nlohmann::json;

struct Options {
  std::string run;
  std::string data;
  std::string split = "validation";
  std::string weights = "best";
  int64_t images_at_once = 100;
  int64_t workers = 1;
  int threads = at::get_num_threads();
  bool as_json = false;
};

const std::map<std::string, train::Weights> kWeights{
    {"best", train::Weights::kBest}, {"plain", train::Weights::kPlain}, {"averaged", train::Weights::kAveraged}};

void check_classes(const train::TrainedModel& trained, const data::Dataset& dataset, const std::string& name) {
  if (trained.classes == dataset.classes()) return;
  throw Error("eval",
              fmt::format("the data must have the classes the run was trained on, {} ('{}', ...), but {} has {} "
                          "('{}', ...)",
                          trained.classes.size(), trained.classes.at(0), name, dataset.classes().size(),
                          dataset.classes().at(0)));
}

void run(const Options& options) {
  at::set_num_threads(options.threads);
  const train::RunFolder folder{options.run};
  const auto trained = train::open_trained(folder, kWeights.at(options.weights));
  for (const auto& sentence : trained.damaged) fmt::print(stderr, "frn: {}\n", sentence);
  const auto text = options.data.empty() ? trained.config.data : options.data;
  const auto name = data::parse_data_name(text);
  const auto dataset =
      data::open_dataset(name, options.split == "train" ? data::Split::kTrain : data::Split::kValidation);
  check_classes(trained, *dataset, text);
  const auto* const own_kind = data::parse_data_name(trained.config.data).kind;
  std::optional<Progress> progress;
  if (!options.as_json) progress.emplace("image", 0, dataset->size());
  const auto result = train::evaluate(*trained.model, dataset, train::evaluation_pipeline(trained.config, *own_kind),
                                      {.images_at_once = options.images_at_once,
                                       .workers = options.workers,
                                       .channels_last = trained.config.layout == "channels-last",
                                       .bfloat16 = trained.config.autocast == "bfloat16",
                                       .progress = [&](int64_t done) {
                                         if (progress) progress->show(done, "");
                                       }});
  progress.reset();
  for (const auto& sample : result.broken) {
    fmt::print(stderr, "frn: cannot read {}: {} (it does not count)\n", sample.name, sample.reason);
  }
  const json out{{"checkpoint", trained.checkpoint.filename().string()},
                 {"step", trained.step},
                 {"weights", trained.averaged ? "averaged" : "plain"},
                 {"data", text},
                 {"split", options.split},
                 {"samples", result.score.samples},
                 {"unreadable", result.broken.size()},
                 {"loss", result.loss},
                 {"precision_at_1", result.score.precision_at_1()},
                 {"recall_at_5", result.score.recall_at_5()}};
  write_whole_file(folder.path / "eval.json", out.dump(2) + "\n", "eval");
  if (options.as_json) {
    std::cout << out.dump(2) << "\n";
    return;
  }
  fmt::print("{} {} of {} ({} weights of step {})\nP@1 {:.2f} %  R@5 {:.2f} %  loss {:.4f}\nwrote {}\n",
             result.score.samples, options.split == "train" ? "training images" : "validation images", text,
             trained.averaged ? "averaged" : "plain", trained.step, 100 * result.score.precision_at_1(),
             100 * result.score.recall_at_5(), result.loss, (folder.path / "eval.json").string());
}

}  // namespace

void add_eval(CLI::App& program) {
  auto options = std::make_shared<Options>();
  auto* eval = program.add_subcommand("eval", "Precision@1 and Recall@5 of a trained network");
  eval->add_option("--run", options->run, "The run's folder")->required();
  eval->add_option("--data", options->data, "KIND:DIR (default: the run's own data)");
  eval->add_option("--split", options->split, "validation, train")
      ->check(CLI::IsMember({"validation", "train"}))
      ->capture_default_str();
  eval->add_option("--weights", options->weights, "best (averaged where there are some), plain, averaged")
      ->check(CLI::IsMember({"best", "plain", "averaged"}))
      ->capture_default_str();
  eval->add_option("--images-at-once", options->images_at_once, "Images in the network at a time")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  eval->add_option("--workers", options->workers, "Threads that prepare images")
      ->check(CLI::NonNegativeNumber)
      ->capture_default_str();
  eval->add_option("--threads", options->threads, "Threads of the network")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  eval->add_flag("--json", options->as_json, "Print JSON");
  eval->callback([options] { run(*options); });
}

}  // namespace frn::cli
