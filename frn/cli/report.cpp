// frn report: figures, numbers and a page from what a run or a study wrote.
#include <fmt/format.h>

#include "frn/cli/commands.h"
#include "frn/report/run_report.h"
#include "frn/report/study_report.h"

namespace frn::cli {
namespace {

void run(const std::string& folder) {
  const report::StudyFolder study{folder};
  const auto written = study.holds_study() ? report::study_report(study) : report::run_report(folder);
  for (const auto& path : written) fmt::print("wrote {}\n", path.string());
}

}  // namespace

void add_report(CLI::App& program) {
  auto folder = std::make_shared<std::string>();
  auto* command =
      program.add_subcommand("report", "Curves, numbers and a page (report.html) from the folder of a run or a study");
  command->add_option("DIR", *folder, "The folder that frn train or frn study --out wrote")->required();
  command->callback([folder] { run(*folder); });
}

}  // namespace frn::cli
