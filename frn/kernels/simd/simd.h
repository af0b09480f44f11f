// The SIMD implementations, by Highway target. A target that this build does not have is null.
#pragma once

#include "frn/kernels/kernels.h"

namespace frn::kernels {

template <typename T>
struct SimdLoops {
  const LayoutLoops<T>* avx512 = nullptr;
  const LayoutLoops<T>* avx2 = nullptr;
  const LayoutLoops<T>* sse4 = nullptr;
  const LayoutLoops<T>* neon = nullptr;
};

template <typename T>
SimdLoops<T> simd_loops();

}  // namespace frn::kernels

// Collects what foreach_target.h compiled; used once at the end of each element type's source.
#if HWY_ARCH_X86 && defined(FRN_SSE4_ALONE)
#define FRN_COLLECT_SIMD_LOOPS(T)               \
  template <>                                   \
  SimdLoops<T> simd_loops<T>() {                \
    return {.sse4 = N_SSE4::layout_loops<T>()}; \
  }
#elif HWY_ARCH_X86
#define FRN_COLLECT_SIMD_LOOPS(T)                                                                                   \
  template <>                                                                                                       \
  SimdLoops<T> simd_loops<T>() {                                                                                    \
    return {                                                                                                        \
        .avx512 = N_AVX3::layout_loops<T>(), .avx2 = N_AVX2::layout_loops<T>(), .sse4 = N_SSE4::layout_loops<T>()}; \
  }
#else
#define FRN_COLLECT_SIMD_LOOPS(T)               \
  template <>                                   \
  SimdLoops<T> simd_loops<T>() {                \
    return {.neon = N_NEON::layout_loops<T>()}; \
  }
#endif
