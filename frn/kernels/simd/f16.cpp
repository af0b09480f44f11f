// The SIMD loops for Float16, compiled once per target.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "frn/kernels/simd/f16.cpp"
#include "hwy/foreach_target.h"
// foreach_target.h goes before the rest: it sets the target that the rest is compiled for.
#include "frn/kernels/simd/loops-inl.h"

#if HWY_ONCE
namespace frn::kernels {
FRN_COLLECT_SIMD_LOOPS(Float16)
}  // namespace frn::kernels
#endif
