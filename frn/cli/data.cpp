// frn data: get data sets from their owners, and look at every image before a long run does.
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>

#include "frn/cli/commands.h"
#include "frn/cli/progress.h"
#include "frn/core/error.h"
#include "frn/data/check.h"
#include "frn/data/published.h"

namespace frn::cli {
namespace {

using nlohmann::json;

// --- get ---

struct GetOptions {
  std::string name;
  std::string folder;
  std::string server;
};

constexpr uint64_t kMegabyte = 1'000'000;

void get(const GetOptions& options) {
  const auto& set = data::find_published(options.name);
  std::optional<Progress> bar;
  uint64_t last = 0;
  const auto show = [&](uint64_t done, uint64_t total) {
    if (!bar || done < last) {  // a set of many files counts from 0 again
      bar.emplace(fmt::format("{}, MB", set.name), static_cast<int64_t>(done / kMegabyte),
                  static_cast<int64_t>(total / kMegabyte));
    }
    last = done;
    bar->show(static_cast<int64_t>(done / kMegabyte), "");
  };
  const auto folder = data::get_published(set, options.folder, options.server, show).string();
  bar.reset();
  fmt::print("{} is in {} (licence: {}); use it as --data {}:{}\n", set.name, folder, set.terms, set.kind, folder);
}

void add_get(CLI::App& command) {
  auto options = std::make_shared<GetOptions>();
  auto* getting = command.add_subcommand("get", "Fetch, check and unpack a data set");
  std::string known;
  for (const auto& set : data::published_sets()) known += fmt::format("\n  {:<14} from {}", set.name, set.server);
  getting->footer("Known:" + known + "\n\nA transfer that broke off goes on where it stopped.");
  getting->add_option("NAME", options->name, "Which one (see below)")->required();
  getting->add_option("DIR", options->folder, "The folder to put it into")->required();
  getting->add_option("--url", options->server, "Another server: the address of the folder that has the same files");
  getting->callback([options] { get(*options); });
}

// --- check ---

struct CheckOptions {
  std::string data;
  int64_t threads = at::get_num_threads();
  bool as_json = false;
};

struct Checked {
  std::string split;
  data::CheckReport report;
  std::vector<std::string> classes;
};

Checked check_split(const data::DataName& name, data::Split split, const CheckOptions& options) {
  Checked out{split == data::Split::kTrain ? "train" : "validation", {}, {}};
  const auto dataset = data::open_dataset(name, split);
  out.classes = dataset->classes();
  std::optional<Progress> bar;
  if (!options.as_json) bar.emplace(out.split + " image", 0, dataset->size());
  out.report = data::check_dataset(*dataset, options.threads, [&](int64_t done, int64_t) {
    if (bar) bar->show(done, "");
  });
  return out;
}

json as_json(const Checked& checked) {
  const auto& report = checked.report;
  json broken = json::array();
  for (const auto& image : report.broken) {
    broken.push_back({{"index", image.index}, {"name", image.name}, {"reason", image.reason}});
  }
  json classes = json::array();
  for (size_t i = 0; i < checked.classes.size(); ++i) {
    classes.push_back({{"name", checked.classes[i]}, {"images", report.per_class.at(i)}});
  }
  return {{"images", report.images},
          {"classes", classes},
          {"smallest", {report.smallest.height, report.smallest.width}},
          {"largest", {report.largest.height, report.largest.width}},
          {"grey", report.grey},
          {"broken", broken}};
}

std::string size_text(const data::CheckReport& report) {
  const auto& [small, large] = std::pair(report.smallest, report.largest);
  if (small.height == large.height && small.width == large.width) {
    return fmt::format("{}x{} pixels", small.height, small.width);
  }
  return fmt::format("{} to {} pixels high, {} to {} wide", small.height, large.height, small.width, large.width);
}

void print(const std::vector<Checked>& splits) {
  for (const auto& [split, report, classes] : splits) {
    fmt::print("{}: {} images of {} classes, {}, {} grey, {} broken\n", split, report.images, classes.size(),
               size_text(report), report.grey, report.broken.size());
    for (const auto& image : report.broken) fmt::print("  broken: {}: {}\n", image.name, image.reason);
  }
  fmt::print("\n{:<24}", "class");
  for (const auto& checked : splits) fmt::print("{:>12}", checked.split);
  fmt::print("\n");
  for (size_t i = 0; i < splits.at(0).classes.size(); ++i) {
    fmt::print("{:<24}", splits[0].classes[i]);
    for (const auto& checked : splits) fmt::print("{:>12}", checked.report.per_class.at(i));
    fmt::print("\n");
  }
}

void check(const CheckOptions& options) {
  const auto name = data::parse_data_name(options.data);
  std::vector<Checked> splits;
  for (const auto split : {data::Split::kTrain, data::Split::kValidation}) {
    splits.push_back(check_split(name, split, options));
  }
  if (options.as_json) {
    json out{{"data", options.data}};
    for (const auto& checked : splits) out[checked.split] = as_json(checked);
    std::cout << out.dump(2, ' ', false, json::error_handler_t::replace) << "\n";
  } else {
    print(splits);
  }
  size_t broken = 0;
  for (const auto& checked : splits) broken += checked.report.broken.size();
  if (broken > 0) {
    throw Error("data",
                fmt::format("{} image{} of {} cannot be read; replace or delete them, or let frn train skip them "
                            "(--broken-limit)",
                            broken, broken == 1 ? "" : "s", options.data));
  }
}

void add_check(CLI::App& command) {
  auto options = std::make_shared<CheckOptions>();
  auto* checking = command.add_subcommand("check", "Decode every image and count classes; fails when one is broken");
  checking->add_option("DATA", options->data, "As for frn train: KIND:DIR")->required();
  checking->add_option("--threads", options->threads, "Threads")->check(CLI::PositiveNumber)->capture_default_str();
  checking->add_flag("--json", options->as_json, "Print JSON");
  checking->callback([options] { check(*options); });
}

}  // namespace

void add_data(CLI::App& program) {
  auto* command = program.add_subcommand("data", "Data sets: get one from its owner, check one for broken images");
  command->require_subcommand(1);
  add_get(*command);
  add_check(*command);
}

}  // namespace frn::cli
