// The program `frn`. Errors end it with one sentence on stderr and an exit code that is not 0.
#include <fmt/format.h>

#include <c10/util/Exception.h>
#include <sys/prctl.h>

#include <cstdio>

#include "frn/cli/allocator.h"
#include "frn/cli/commands.h"
#include "frn/cli/complaints.h"
#include "frn/cli/environment.h"
#include "frn/core/error.h"

namespace {

constexpr int kExitUsage = 2;

// LibTorch's remarks (of layouts it would like better, say) are not for a person who trains.
class Quiet : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): only set-up and last messages stand outside of the try.
int main(int argc, char** argv) {
  frn::cli::bound_spinning(argv);
  prctl(PR_SET_NAME, "frn");  // a process that the program started itself would be "exe" in lists of processes
  frn::cli::keep_freed_memory();
  Quiet quiet;
  c10::WarningUtils::set_warning_handler(&quiet);
  CLI::App program("Filter Response Normalization: fused layers, the paper's networks, tables and figures", "frn");
  program.set_version_flag("--version", "frn " FRN_VERSION);
  program.require_subcommand(1);
  program.set_help_all_flag("--help-all", "Print the help of every subcommand");
  frn::cli::add_bench(program);
  frn::cli::add_convert(program);
  frn::cli::add_data(program);
  frn::cli::add_eval(program);
  frn::cli::add_info(program);
  frn::cli::add_report(program);
  frn::cli::add_predict(program);
  frn::cli::add_study(program);
  frn::cli::add_train(program);
  if (const auto complaint = frn::cli::find_unknown(program, {argv + 1, argv + argc})) {
    fmt::print(stderr, "frn: {}\n", *complaint);
    return kExitUsage;
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& end) {  // help and version
    return program.exit(end);
  } catch (const CLI::RuntimeError& end) {  // a command's own exit code; it has said why
    return end.get_exit_code();
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "frn: {}\n", frn::cli::complaint_of(program, error));
    return kExitUsage;
  } catch (const c10::Error& error) {
    fmt::print(stderr, "frn: {}\n", error.what_without_backtrace());
    return 1;
  } catch (const std::exception& error) {
    fmt::print(stderr, "frn: {}\n", error.what());
    return 1;
  }
  return 0;
}
