// The ordered list of implementations and the choice among them.
#include <atomic>
#include <cstdlib>
#include <vector>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/kernels/kernels.h"
#include "frn/kernels/reference.h"
#include "hwy/highway.h"
// highway.h before simd.h: it defines the architecture.
#include "frn/kernels/simd/simd.h"

namespace frn::kernels {
namespace {

struct Candidate {
  std::string_view name;
  int64_t target;  // Highway's bit for it
  std::string_view why_not;
};

std::vector<Implementation> make_list() {
  const auto f32 = simd_loops<float>();
  const auto f64 = simd_loops<double>();
  const auto bf16 = simd_loops<BFloat16>();
  const auto f16 = simd_loops<Float16>();
  const int64_t here = hwy::SupportedTargets();
  std::vector<Implementation> list;
  const auto add = [&](Candidate candidate, auto member_f32, auto member_f64, auto member_bf16, auto member_f16) {
    if (f32.*member_f32 == nullptr) return;
    const bool runs = (here & candidate.target) != 0;
    list.push_back({candidate.name, runs ? std::string_view() : candidate.why_not, f32.*member_f32, f64.*member_f64,
                    bf16.*member_bf16, f16.*member_f16});
  };
  add({"avx512", HWY_AVX3, "this CPU or its operating system has no AVX-512 (F, BW, CD, DQ, VL)"},
      &SimdLoops<float>::avx512, &SimdLoops<double>::avx512, &SimdLoops<BFloat16>::avx512, &SimdLoops<Float16>::avx512);
  add({"avx2", HWY_AVX2, "this CPU or its operating system has no AVX2, FMA and F16C"}, &SimdLoops<float>::avx2,
      &SimdLoops<double>::avx2, &SimdLoops<BFloat16>::avx2, &SimdLoops<Float16>::avx2);
  add({"sse4", HWY_SSE4, "this CPU has no SSE4.2"}, &SimdLoops<float>::sse4, &SimdLoops<double>::sse4,
      &SimdLoops<BFloat16>::sse4, &SimdLoops<Float16>::sse4);
  add({"neon", HWY_NEON, "this CPU has no NEON"}, &SimdLoops<float>::neon, &SimdLoops<double>::neon,
      &SimdLoops<BFloat16>::neon, &SimdLoops<Float16>::neon);
  list.push_back({"reference", "", reference_loops<float>(), reference_loops<double>(), reference_loops<BFloat16>(),
                  reference_loops<Float16>()});
  return list;
}

const Implementation& find(std::string_view name, std::string_view source) {
  std::vector<std::string_view> names;
  for (const auto& implementation : implementations()) {
    names.push_back(implementation.name);
    if (implementation.name != name) continue;
    if (implementation.why_not.empty()) return implementation;
    throw Error("implementation", std::string(source) + " asks for '" + std::string(name) + "', but " +
                                      std::string(implementation.why_not) + "; choose another or leave it unset");
  }
  throw Error("implementation", std::string(source) + " must be one of " + join(names) + " but is '" +
                                    std::string(name) + "'" + suggestion(name, names));
}

const Implementation* first_choice() {
  if (const char* name = std::getenv("FRN_IMPLEMENTATION"); name != nullptr && *name != '\0') {
    return &find(name, "FRN_IMPLEMENTATION");
  }
  for (const auto& implementation : implementations()) {
    if (implementation.why_not.empty()) return &implementation;
  }
  return nullptr;  // not reached: the reference runs everywhere
}

std::atomic<const Implementation*> forced{nullptr};

}  // namespace

std::span<const Implementation> implementations() {
  static const std::vector<Implementation> list = make_list();
  return list;
}

const Implementation& chosen_implementation() {
  if (const auto* implementation = forced.load(std::memory_order_relaxed)) return *implementation;
  static const Implementation* const choice = first_choice();
  return *choice;
}

void force_implementation(std::string_view name) {
  forced.store(name.empty() ? nullptr : &find(name, "the implementation"), std::memory_order_relaxed);
}

}  // namespace frn::kernels
