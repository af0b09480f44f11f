#include "frn/cli/provenance.h"

#include <fmt/format.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <ctime>
#include <fstream>
#include <thread>

#include "frn/cli/version.h"
#include "frn/ops/ops.h"

namespace frn::cli {
namespace {

std::string machine() {
  utsname system{};
  uname(&system);
  const double gigabytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e9;
  return fmt::format("{}, {} processors, {:.0f} GB, {} {}", cpu_name().value_or(system.machine),
                     std::thread::hardware_concurrency(), gigabytes, system.sysname, system.release);
}

std::string now() {
  const std::time_t time = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&time, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts);
  return text;
}

}  // namespace

report::Properties provenance() {
  return {{"program", "frn " FRN_VERSION},
          {"commit", commit()},
          {"machine", machine()},
          {"kernels", std::string(chosen_implementation())},
          {"started", now()}};
}

std::optional<std::string> cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with("model name") || colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? std::nullopt : std::optional(line.substr(begin));
  }
  return std::nullopt;
}

}  // namespace frn::cli
