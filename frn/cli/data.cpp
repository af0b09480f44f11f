// frn data: get data sets from their owners, and look at every image before a long run does.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <numeric>
#include <optional>

#include "frn/cli/commands.h"
#include "frn/cli/output.h"
#include "frn/cli/progress.h"
#include "frn/cli/threads.h"
#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/data/check.h"
#include "frn/fetch/published.h"

namespace frn::cli {
namespace {

// --- get ---

struct GetOptions {
  std::string name;
  std::string folder;
  std::string server;
};

constexpr uint64_t kMegabyte = 1'000'000;

void get(const GetOptions& options) {
  const auto& set = fetch::find_published(options.name);
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
  const auto folder = fetch::get_published(set, options.folder, options.server, show).string();
  bar.reset();
  fmt::print("{} is in {} (licence: {}); use it as --data {}:{}\n", set.name, folder, set.terms, set.kind, folder);
}

// "https://host/owner/...": enough to see whose server it is, in a column of the help.
std::string owner_of(std::string_view address) {
  auto slash = address.find("//");
  slash = slash == std::string_view::npos ? 0 : slash + 2;
  for (int parts = 0; parts < 2 && slash != std::string_view::npos; ++parts) slash = address.find('/', slash + 1);
  return slash == std::string_view::npos ? std::string(address) : std::string(address.substr(0, slash)) + "/...";
}

Command get_command() {
  auto options = std::make_shared<GetOptions>();
  std::string known;
  for (const auto& set : fetch::published_sets())
    known += fmt::format("\n  {:<14} from {}", set.name, owner_of(set.server));
  return {.name = "get",
          .help = "Fetch, check and unpack a data set",
          .options = {{.name = "NAME", .to = &options->name, .help = "The data set (see below)", .required = true},
                      {.name = "DIR", .to = &options->folder, .help = "Folder to put it into", .required = true},
                      {.name = "--url",
                       .to = &options->server,
                       .help = "Another server: the address of a folder with the same files",
                       .value = "URL",
                       .default_text = "the owner's server"}},
          .run = [options](const Given&) { get(*options); },
          .ending = "Known data sets:" + known + "\n\nAn interrupted transfer continues where it stopped."};
}

// --- check ---

struct CheckOptions {
  std::string data;
  int64_t threads = default_threads();
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

Value to_value(const Checked& checked) {
  const auto& report = checked.report;
  auto broken = Value::empty_list();
  for (const auto& image : report.broken) {
    broken.push_back({{"index", image.index}, {"name", image.name}, {"reason", image.reason}});
  }
  auto classes = Value::empty_list();
  for (size_t i = 0; i < checked.classes.size(); ++i) {
    classes.push_back({{"name", checked.classes[i]}, {report.has_boxes ? "boxes" : "images", report.per_class.at(i)}});
  }
  auto problems = Value::empty_list();
  for (const auto& problem : report.problems) {
    problems.push_back({{"name", problem.name}, {"reason", problem.reason}, {"left_out", problem.left_out}});
  }
  Value out{{"images", report.images},
            {"classes", classes},
            {"smallest", Value::list_of(std::array{report.smallest.height, report.smallest.width})},
            {"largest", Value::list_of(std::array{report.largest.height, report.largest.width})},
            {"grey", report.grey},
            {"broken", broken},
            {"problems", problems}};
  if (report.has_boxes) out["images_without_boxes"] = report.without_boxes;
  return out;
}

std::string size_text(const data::CheckReport& report) {
  const auto& [small, large] = std::pair(report.smallest, report.largest);
  if (small.height == large.height && small.width == large.width) {
    return fmt::format("{}x{} pixels", small.height, small.width);
  }
  return fmt::format("{} to {} pixels high, {} to {} wide", small.height, large.height, small.width, large.width);
}

size_t left_out(const data::CheckReport& report) {
  const auto is_left_out = [](const data::Problem& problem) { return problem.left_out; };
  return static_cast<size_t>(std::count_if(report.problems.begin(), report.problems.end(), is_left_out));
}

std::string boxes_text(const data::CheckReport& report) {
  if (!report.has_boxes) return "";
  const auto boxes = std::accumulate(report.per_class.begin(), report.per_class.end(), int64_t{0});
  return fmt::format(", {} boxes, {} images without boxes, {} entries left out", boxes, report.without_boxes,
                     left_out(report));
}

// Names come from files that anybody may have written: one line each.
void print_problems(const data::CheckReport& report) {
  constexpr size_t kMostPrinted = 100;
  const auto count = std::min(report.problems.size(), kMostPrinted);
  for (size_t i = 0; i < count; ++i) {
    const auto& problem = report.problems[i];
    fmt::print("  {}: {}: {}\n", problem.left_out ? "left out" : "note", one_line(problem.name),
               one_line(problem.reason));
  }
  if (count < report.problems.size()) {
    fmt::print("  and {} more (--json lists them all)\n", report.problems.size() - count);
  }
}

void print(const std::vector<Checked>& splits) {
  for (const auto& [split, report, classes] : splits) {
    fmt::print("{}: {} images of {} classes{}, {}, {} grey, {} broken\n", split, report.images, classes.size(),
               boxes_text(report), size_text(report), report.grey, report.broken.size());
    for (const auto& image : report.broken) {
      fmt::print("  broken: {}: {}\n", one_line(image.name), one_line(image.reason));
    }
    print_problems(report);
  }
  fmt::print("\n{:<24}", splits.at(0).report.has_boxes ? "boxes per class" : "class");
  for (const auto& checked : splits) fmt::print("{:>12}", checked.split);
  fmt::print("\n");
  for (size_t i = 0; i < splits.at(0).classes.size(); ++i) {
    fmt::print("{:<24}", one_line(splits[0].classes[i]));
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
    Value out{{"data", options.data}};
    for (const auto& checked : splits) out[checked.split] = to_value(checked);
    print_json(out);
  } else {
    print(splits);
  }
  size_t broken = 0;
  size_t unusable = 0;
  for (const auto& checked : splits) {
    broken += checked.report.broken.size();
    unusable += left_out(checked.report);
  }
  if (broken > 0) {
    throw Error("data",
                fmt::format("{} image{} of {} cannot be read; replace or delete them, or let frn train skip them "
                            "(--broken-limit)",
                            broken, broken == 1 ? "" : "s", options.data));
  }
  if (unusable > 0) {
    throw Error("data",
                fmt::format("{} of the annotations of {} cannot be used, and frn train leaves {} out; correct "
                            "or delete {}",
                            unusable, options.data, unusable == 1 ? "it" : "them", unusable == 1 ? "it" : "them"));
  }
}

Command check_command() {
  auto options = std::make_shared<CheckOptions>();
  return {.name = "check",
          .help = "Decode every image and count the classes; fails when an image is broken or a box is unusable",
          .options = {{.name = "DATA",
                       .to = &options->data,
                       .help = "The data set, as for frn train: KIND:DIR",
                       .required = true},
                      {.name = "--threads",
                       .to = &options->threads,
                       .help = "Processor threads",
                       .default_text = "all processors",
                       .range = Range{1, 1024}},
                      {.name = "--json", .to = &options->as_json, .help = "Print JSON"}},
          .run = [options](const Given&) { check(*options); }};
}

}  // namespace

Command data_command() {
  return {.name = "data",
          .help = "Data sets: get one from its owner, check one for broken images and boxes",
          .commands = {get_command(), check_command()}};
}

}  // namespace frn::cli
