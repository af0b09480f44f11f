// frn report: figures, numbers and a page from what a run or a study wrote.
#include <fmt/format.h>

#include "frn/cli/commands.h"
#include "frn/cli/exit.h"
#include "frn/report/run_report.h"
#include "frn/report/study_report.h"

namespace frn::cli {
namespace {

void run(const std::string& folder) {
  const study::Folder study{folder};
  const auto [written, undrawn] =
      study.holds_study() ? report::study_report(study) : report::WrittenReport{report::run_report(folder), ""};
  for (const auto& path : written) fmt::print("wrote {}\n", path.string());
  if (undrawn.empty()) return;
  fmt::print(stderr, "frn: {}\n", undrawn);
  throw Exit{kExitError};
}

}  // namespace

Command report_command() {
  auto folder = std::make_shared<std::string>();
  return {.name = "report",
          .help = "Write curves, numbers and a page (report.html) for a run or a study",
          .options = {{.name = "DIR",
                       .to = folder.get(),
                       .help = "The folder that frn train or frn study wrote to",
                       .required = true}},
          .run = [folder](const Given&) { run(*folder); }};
}

}  // namespace frn::cli
