#include "frn/ops/matrix_tiles.h"

#include <ATen/ops/ones.h>

#include <cstdlib>
#include <exception>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace frn::ops {
namespace {

#if defined(__x86_64__)
bool tiles_are_shown_but_not_described() {
  constexpr unsigned kFeatures = 7;
  constexpr unsigned kTileBit = 1U << 24;  // in EDX
  constexpr unsigned kTiles = 0x1d;        // EAX: the number of palettes
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(kFeatures, 0, &eax, &ebx, &ecx, &edx) == 0 || (edx & kTileBit) == 0) return false;
  // __get_cpuid_count is 0 when the processor has no such page.
  return __get_cpuid_count(kTiles, 0, &eax, &ebx, &ecx, &edx) == 0 || eax == 0;
}
#else
bool tiles_are_shown_but_not_described() { return false; }
#endif

constexpr const char* kVariable = "ONEDNN_MAX_CPU_ISA";

// Any use makes oneDNN read its variables; this one copies a single number.
void use_onednn() noexcept {
  try {
    at::ones({1}).to_mkldnn();
  } catch (const std::exception&) {  // a LibTorch without oneDNN needs no cap
  }
}

}  // namespace

void avoid_undescribed_tiles() noexcept {
  if (!tiles_are_shown_but_not_described() || std::getenv(kVariable) != nullptr) return;
  setenv(kVariable, "AVX512_CORE_FP16", /*overwrite=*/1);
  use_onednn();
  unsetenv(kVariable);
}

}  // namespace frn::ops
