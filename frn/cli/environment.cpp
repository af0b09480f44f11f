#include "frn/cli/environment.h"

#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <sys/wait.h>
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
constexpr const char* kOneDnnLimit = "ONEDNN_MAX_CPU_ISA";

}  // namespace

void bound_spinning(char** argv) {
  if (argv[1] == nullptr || std::find(kCompute.begin(), kCompute.end(), argv[1]) == kCompute.end()) return;
  if (std::getenv(kSpinCount) != nullptr || std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv(kSpinCount, kSpins, /*overwrite=*/0);
  execv("/proc/self/exe", argv);  // on failure the program goes on, only slower beside others
}

void avoid_broken_bfloat16() {
  if (std::getenv(kOneDnnLimit) != nullptr) return;
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    const auto a = at::ones({64, 64}, at::kBFloat16);
    at::mm(a, a);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) setenv(kOneDnnLimit, "AVX512_CORE_FP16", /*overwrite=*/0);
}

}  // namespace frn::cli
