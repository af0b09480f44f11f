#include "frn/cli/environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string_view>

namespace frn::cli {
namespace {

constexpr const char* kSpinCount = "GOMP_SPINCOUNT";
// About 50 microseconds: longer than the gaps between a network's layers, so that no wake-up is paid there.
constexpr const char* kSpins = "20000";
constexpr std::array<std::string_view, 5> kCompute{"train", "eval", "predict", "study", "bench"};

}  // namespace

void bound_spinning(char** argv) {
  if (argv[1] == nullptr || std::find(kCompute.begin(), kCompute.end(), argv[1]) == kCompute.end()) return;
  if (std::getenv(kSpinCount) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv(kSpinCount, kSpins, /*overwrite=*/0);
  execv("/proc/self/exe", argv);  // on failure the program goes on, only slower beside others
}

}  // namespace frn::cli
