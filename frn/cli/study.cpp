// frn study: a table or figure of the paper, or of one's own. The path: library (its text) -> cells -> plan or
// runner -> report.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <set>
#include <thread>

#include "frn/cli/commands.h"
#include "frn/cli/exit.h"
#include "frn/cli/provenance.h"
#include "frn/cli/study_epsilon.h"
#include "frn/cli/study_plan.h"
#include "frn/cli/study_runner.h"
#include "frn/cli/study_twins.h"
#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/report/gnuplot.h"
#include "frn/report/study_report.h"
#include "frn/report/study_terminal.h"
#include "frn/study/library.h"
#include "frn/study/twins.h"

namespace frn::cli {
namespace {

using study::Settings;

struct StudyOptions {
  std::string name;
  std::string scale = "smoke";
  std::string out;
  std::string data;
  std::vector<std::string> only{"*"};
  std::vector<std::string> set;
  int64_t seeds = 0;
  int64_t jobs = 0;
  int64_t threads = -1;
  int64_t max_steps = -1;  // not given: what --set or the study says
  bool list = false;
  bool dry_run = false;
  bool report_only = false;
  bool all_cells = false;
};

void print_list() {
  for (const auto& study : study::built_in_studies()) {
    const auto heading = study::heading_of(study);
    fmt::print("{:<16}{} ({})\n", study.name, heading.title, heading.place);
  }
}

// "key=value" as a setting; a value that is no TOML is a text.
void set_from(const std::string& text, Settings& settings) {
  const auto equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw Error("study", fmt::format("--set must be KEY=VALUE but is '{}'", text));
  }
  const auto key = text.substr(0, equals);
  if (key == "seed") {
    throw Error("study",
                "--set cannot give the seed, for every training of a cell has its own; --seeds says how many, and "
                "first_seed in the study's scale where they start");
  }
  const auto value = text.substr(equals + 1);
  try {
    settings[key] = study::read_settings(key + " = " + value).at(key);
  } catch (const std::exception&) {
    settings[key] = study::quoted_value(value);
  }
}

Settings given_settings(const StudyOptions& options, const study::Definition& study) {
  Settings out;
  for (const auto& text : options.set) set_from(text, out);
  const auto& scale = study.scale(options.scale);
  // A plan needs no files: the scale's generated images have the right size.
  const bool only_planned = options.dry_run && options.data.empty() && !scale.settings.contains("data");
  const auto data = only_planned ? "random" : options.data;
  if (!data.empty()) {
    const bool short_name = data == "random" && !scale.random.empty();
    out["data"] = study::quoted_value(short_name ? scale.random : data);
  }
  if (options.threads >= 0) out["threads"] = std::to_string(options.threads);
  if (options.max_steps >= 0) out["max_steps"] = std::to_string(options.max_steps);
  return out;
}

// A pattern names a cell with all its seeds, or one of them.
bool fits(const study::Definition& study, const study::Cell& cell, const std::string& pattern) {
  return study::matches(cell.name, pattern) ||
         study::matches(study::cell_name(study, cell.row, cell.column, /*seed=*/0), pattern);
}

std::vector<study::Cell> chosen(const study::Definition& study, std::vector<study::Cell> cells,
                                const std::vector<std::string>& only) {
  for (const auto& pattern : only) {
    if (std::any_of(cells.begin(), cells.end(), [&](const auto& cell) { return fits(study, cell, pattern); })) continue;
    std::vector<std::string_view> names;
    for (const auto& cell : cells) names.emplace_back(cell.name);
    throw Error("study", fmt::format("--only {} matches no cell; the cells are {}", pattern, join(names)));
  }
  std::erase_if(cells, [&](const study::Cell& cell) {
    return std::none_of(only.begin(), only.end(), [&](const auto& pattern) { return fits(study, cell, pattern); });
  });
  return cells;
}

// The cells to train for those that were chosen: a cell that is the same training as another is represented by it.
std::vector<study::Cell> to_train(const std::vector<study::Cell>& all, const std::vector<study::Cell>& wanted,
                                  const std::map<std::string, std::string>& same_as) {
  std::set<std::string> names;
  for (const auto& cell : wanted) {
    const auto found = same_as.find(cell.name);
    names.insert(found == same_as.end() ? cell.name : found->second);
  }
  std::vector<study::Cell> out;
  std::copy_if(all.begin(), all.end(), std::back_inserter(out),
               [&](const auto& cell) { return names.contains(cell.name); });
  return out;
}

int64_t jobs_of(const StudyOptions& options, const std::vector<PlannedCell>& plan) {
  if (options.jobs > 0) return options.jobs;
  const int64_t processors = std::max(1U, std::thread::hardware_concurrency());
  int64_t threads = 1;  // of the cell that has most; 0: all
  for (const auto& one : plan) threads = std::max(threads, one.config.threads > 0 ? one.config.threads : processors);
  return std::max<int64_t>(1, processors / threads);
}

// Gives whether all figures could be drawn.
bool print_report(const study::Folder& folder) {
  fmt::print("\n{}\n", report::terminal_text(folder));
  auto [written, undrawn] = report::study_report(folder);
  const auto page = written.back();
  written.pop_back();
  std::vector<std::string> names;
  for (const auto& path : written) {
    const auto inside = path.parent_path().lexically_relative(folder.path);
    auto name = inside == "." ? path.filename().string() : (inside / "*").string() + path.extension().string();
    if (names.empty() || names.back() != name) names.push_back(std::move(name));
  }
  fmt::print("wrote {} in {}\nreport: {}\n", fmt::join(names, ", "), folder.path.string(), page.string());
  if (!undrawn.empty()) fmt::print(stderr, "frn: {}\n", undrawn);
  return undrawn.empty();
}

// While there is time to install it.
void warn_without_gnuplot(const study::Folder& folder) {
  if (report::has_gnuplot()) return;
  fmt::print(stderr,
             "frn: [study] gnuplot is not installed and the report will have no figures; install Debian's gnuplot-nox "
             "before the end, or afterwards and then type frn report {}\n",
             shell_word(folder.path.string()));
}

void refuse_another_study(const study::Folder& folder, const study::Text& text, const StudyOptions& options) {
  folder.check_free(text.text);
  if (!folder.holds_study()) return;
  const auto before = folder.read_record();
  if (before.study == text.name && before.scale == options.scale) return;
  throw Error("study", fmt::format("{} holds {} at scale {}; give another --out", folder.path.string(), before.study,
                                   before.scale));
}

// What a call of the command is about.
struct Task {
  study::Text text;
  study::Definition study;
  study::Folder folder;
  Settings given;
  int64_t seeds = 1;
  std::vector<study::Cell> wanted;             // that --only chose
  std::map<std::string, std::string> same_as;  // of all cells
  std::vector<PlannedCell> plan;               // what is trained for them
};

Task task_of(const StudyOptions& options, const study::Text& text, const study::Definition& study,
             const study::Folder& folder) {
  const auto& scale = study.scale(options.scale);
  Task task{text, study, folder, given_settings(options, study), options.seeds > 0 ? options.seeds : scale.seeds,
            {},   {},    {}};
  const auto all = cells_of(study, scale, task.seeds, task.given);
  task.wanted = chosen(study, all, options.only);
  if (!options.all_cells) task.same_as = study::same_trainings(folder, all, training_of);
  task.plan = plan_cells(to_train(all, task.wanted, task.same_as));
  return task;
}

// Those of the cells that were chosen.
std::map<std::string, std::string> same_of_wanted(const Task& task) {
  std::map<std::string, std::string> out;
  for (const auto& cell : task.wanted) {
    if (const auto found = task.same_as.find(cell.name); found != task.same_as.end()) out.insert(*found);
  }
  return out;
}

void train_and_report(const StudyOptions& options, const Task& task) {
  const auto& [text, study, folder, given, seeds, wanted, same_as, plan] = task;
  refuse_another_study(folder, text, options);
  std::set<std::string> asked;
  for (const auto& cell : wanted) asked.insert(cell.name);
  const int64_t jobs = jobs_of(options, plan);
  std::vector<StudyJob> work;
  for (const auto& cell : plan) work.push_back({cell.cell, cell.steps_to_go(), cell.work()});
  const auto outcome = run_cells(folder, work, jobs, [&] {
    folder.write(text.text, {text.name, options.scale, seeds, asked, given, provenance(), same_as});
    fmt::print("{} at scale {}: {}, {} at a time, in {}\n", text.name, options.scale,
               amount_of_work(plan.size(), wanted.size()), jobs, folder.path.string());
    warn_without_gnuplot(folder);
  });
  if (outcome.signal != 0) {
    fmt::print("stopped; the same command goes on where it was, and --report-only shows what is there\n");
    throw Exit{kExitSignal + outcome.signal};
  }
  const bool drawn = print_report(folder);
  if (outcome.failed.empty()) {
    if (!drawn) throw Exit{kExitError};
    return;
  }
  const std::vector<std::string_view> names(outcome.failed.begin(), outcome.failed.end());
  throw Error("study",
              fmt::format("{} of {} cells failed: {}; see {}/cells/NAME/output.txt; the same command tries them again",
                          outcome.failed.size(), plan.size(), join(names), folder.path.string()));
}

// A figure without cells.
void draw_or_tell(const StudyOptions& options, const study::Text& text) {
  const std::filesystem::path folder = options.out.empty() ? "studies-out/" + text.name : options.out;
  if (!options.dry_run) draw_epsilon(text, folder);
  for (const auto& path : epsilon_files(folder)) {
    fmt::print("{} {}\n", options.dry_run ? "would write" : "wrote", path.string());
  }
}

void run(const StudyOptions& options) {
  if (options.list) return print_list();
  if (options.name.empty()) throw Error("study", "name a study, or the path of a TOML file; --list lists them");
  const auto text = study::find_study(options.name);
  if (study::is_epsilon(text)) return draw_or_tell(options, text);
  const study::Folder folder{options.out.empty() ? fmt::format("studies-out/{}-{}", text.name, options.scale)
                                                 : options.out};
  if (options.report_only) {
    if (!print_report(folder)) throw Exit{kExitError};
    return;
  }
  const auto study = study::at_scale(study::parse_study(text.text, text.name, text.source), options.scale);
  const auto task = task_of(options, text, study, folder);
  if (options.dry_run)
    return print_plan(study, task.plan, task.wanted.size(), jobs_of(options, task.plan), same_of_wanted(task));
  train_and_report(options, task);
}

}  // namespace

Command study_command() {
  auto options = std::make_shared<StudyOptions>();
  return {.name = "study",
          .help = "Make a table or figure of the paper, or a study of your own",
          .options = {{.name = "NAME",
                       .to = &options->name,
                       .help = "The study (see --list), or the path of a TOML file of your own"},
                      {.name = "--list", .to = &options->list, .help = "List the studies"},
                      {.name = "--scale",
                       .to = &options->scale,
                       .help = "How much to train: smoke (minutes), desk (hours) or paper"},
                      {.name = "--out",
                       .to = &options->out,
                       .help = "Folder for the results: new, empty, or that of the same study, which goes on",
                       .value = "DIR",
                       .default_text = "studies-out/NAME-SCALE"},
                      {.name = "--data",
                       .to = &options->data,
                       .help = "Images, where the scale names none; random: generated ones",
                       .value = "KIND:DIR",
                       .default_text = "the scale's own"},
                      {.name = "--seeds",
                       .to = &options->seeds,
                       .help = "Number of times to train every cell, each with another seed",
                       .default_text = "the scale's own",
                       .range = Range{1, study::kMostSeeds}},
                      {.name = "--jobs",
                       .to = &options->jobs,
                       .help = "Cells to train at a time",
                       .default_text = "as many as their threads leave room for",
                       .range = Range{0, 1024}},
                      {.name = "--threads",
                       .to = &options->threads,
                       .help = "Processor threads of each cell; 0: all processors",
                       .default_text = "the scale's own",
                       .range = Range{0, 1024}},
                      {.name = "--only",
                       .to = &options->only,
                       .help = "Cells to train, by name, with * for anything: 'frn-*,bn-32'",
                       .value = "PATTERN,...",
                       .default_text = "all cells",
                       .separator = ','},
                      {.name = "--max-steps",
                       .to = &options->max_steps,
                       .help = "Stop every cell after this step; 0: train to the end",
                       .default_text = "the scale's own, else train to the end",
                       .range = Range{0}},
                      {.name = "--set",
                       .to = &options->set,
                       .help = "Settings of frn train for every cell, such as lr_base=0.2",
                       .value = "KEY=VALUE..."},
                      {.name = "--all-cells",
                       .to = &options->all_cells,
                       .help = "Train also cells that are the same training as another by construction"},
                      {.name = "--dry-run",
                       .to = &options->dry_run,
                       .help = "Print the cells with their steps, memory and time, and train nothing",
                       .excludes = {"--report-only"}},
                      {.name = "--report-only",
                       .to = &options->report_only,
                       .help = "Write the report of what is there, and train nothing",
                       .excludes = {"--dry-run"}}},
          .run = [options](const Given&) { run(*options); },
          .ending = R"(Examples:
  frn study --list
  frn study table2                           smoke scale: some minutes
  frn study table2 --scale desk --dry-run    what it would take
  frn study table2 --scale desk --seeds 3    run again to continue after a stop)"};
}

}  // namespace frn::cli
