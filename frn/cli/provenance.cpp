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

// The first line "key : value" of a file as /proc has them.
std::string value_in(const char* path, const std::string& key) {
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const auto colon = line.find(':');
    if (!line.starts_with(key) || colon == std::string::npos) continue;
    const auto begin = line.find_first_not_of(" \t", colon + 1);
    return begin == std::string::npos ? "" : line.substr(begin);
  }
  return "";
}

std::string machine() {
  utsname system{};
  uname(&system);
  const auto cpu = value_in("/proc/cpuinfo", "model name");
  const double gigabytes =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE)) / 1e9;
  return fmt::format("{}, {} processors, {:.0f} GB, {} {}", cpu.empty() ? system.machine : cpu,
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

}  // namespace frn::cli
