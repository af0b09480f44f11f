// frn report: figures, numbers and a page from what a run wrote.
#include <fmt/format.h>

#include "frn/cli/commands.h"
#include "frn/report/run_report.h"

namespace frn::cli {
namespace {

void run(const std::string& folder) {
  for (const auto& path : report::run_report(folder)) fmt::print("wrote {}\n", path.string());
}

}  // namespace

void add_report(CLI::App& program) {
  auto folder = std::make_shared<std::string>();
  auto* command = program.add_subcommand("report", "Curves, numbers and a page (report.html) from a run's folder");
  command->add_option("DIR", *folder, "The folder that frn train --out wrote")->required();
  command->callback([folder] { run(*folder); });
}

}  // namespace frn::cli
