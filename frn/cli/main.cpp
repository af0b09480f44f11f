// The program `frn`. Errors end it with one sentence on stderr and an exit code that is not 0.
#include <fmt/format.h>

#include <c10/util/Exception.h>
#include <sys/prctl.h>

#include <algorithm>
#include <cstdio>
#include <system_error>

#include "frn/cli/allocator.h"
#include "frn/cli/commands.h"
#include "frn/cli/environment.h"
#include "frn/cli/exit.h"
#include "frn/cli/output.h"
#include "frn/cli/parse.h"
#include "frn/cli/progress.h"
#include "frn/cli/version.h"

namespace frn::cli {
namespace {

constexpr size_t kWidestHelp = 120;  // longer lines are hard to read

// LibTorch's remarks (of layouts it would like better, say) are not for a person who trains.
class Quiet : public c10::WarningHandler {
  void process(const c10::Warning& /*warning*/) override {}
};

Command program() {
  return {.name = "frn",
          .help = "Filter Response Normalization: fused layers, the paper's networks, tables and figures",
          .commands = {train_command(), eval_command(), predict_command(), report_command(), study_command(),
                       data_command(), metrics_command(), convert_command(), export_command(), bench_command(),
                       info_command()}};
}

int fail(int code, const char* words) {
  fmt::print(stderr, "frn: {}\n", words);
  return code;
}

int run(const std::vector<std::string>& arguments) {
  try {
    const auto all = program();
    const auto parsed = parse(all, arguments, version_text(), std::min(terminal_width(), kWidestHelp));
    if (parsed.command == nullptr) {
      fmt::print("{}", parsed.text);
    } else {
      parsed.command->run(parsed.given);
    }
    check_output();
  } catch (const Exit& end) {
    return end.code;
  } catch (const UsageError& error) {
    return fail(kExitUsage, error.what());
  } catch (const c10::Error& error) {
    return fail(kExitError, error.what_without_backtrace());
  } catch (const std::system_error& error) {
    if (std::ferror(stdout) != 0) {
      return fail(kExitError, ("[output] cannot write to standard output: " + error.code().message()).c_str());
    }
    if (error.code() != std::errc::resource_unavailable_try_again) return fail(kExitError, error.what());
    return fail(kExitError,
                "[threads] this machine lets the program start no more threads; give fewer --workers or --threads");
  } catch (const std::exception& error) {
    return fail(kExitError, error.what());
  }
  return 0;
}

}  // namespace
}  // namespace frn::cli

// NOLINTNEXTLINE(bugprone-exception-escape): only set-up and last messages stand outside of the try.
int main(int argc, char** argv) {
  frn::cli::bound_spinning(argv);
  prctl(PR_SET_NAME, "frn");  // a process that the program started itself would be "exe" in lists of processes
  frn::cli::keep_freed_memory();
  frn::cli::Quiet quiet;
  c10::WarningUtils::set_warning_handler(&quiet);
  return frn::cli::run({argv + 1, argv + argc});
}
