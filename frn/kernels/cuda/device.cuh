// What a kernel may use. nvcc takes it from CUDA, the host's compiler from the emulator; both compile the same kernels.
#pragma once

#include "frn/kernels/types.h"

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#define FRN_DEVICE __device__ __forceinline__
#define FRN_KERNEL __global__ void __launch_bounds__(frn::kernels::cuda::kMaxThreads, 1)
#define FRN_ARGUMENT const __grid_constant__
#else
#include "frn/kernels/emulation/device.h"
#endif

namespace frn::kernels::cuda {

#ifdef __CUDACC__
FRN_DEVICE int thread_index() { return static_cast<int>(threadIdx.x); }
FRN_DEVICE int block_threads() { return static_cast<int>(blockDim.x); }
FRN_DEVICE int64_t block_index() { return blockIdx.x; }
FRN_DEVICE void block_barrier() { __syncthreads(); }
FRN_DEVICE double shuffle_xor(unsigned mask, double value, int step) { return __shfl_xor_sync(mask, value, step); }
FRN_DEVICE unsigned char* shared_memory() {
  extern __shared__ uint4 frn_shared_memory[];
  return reinterpret_cast<unsigned char*>(frn_shared_memory);
}
using Pack = uint4;

template <typename V>
FRN_DEVICE V load_global(const V* p) {
  return *p;
}
FRN_DEVICE Pack load_global(const Pack* p) { return __ldg(p); }
template <typename V>
FRN_DEVICE void store_global(V* p, V value) {
  *p = value;
}
template <typename V>
FRN_DEVICE V load_shared(const V* p) {
  return *p;
}
template <typename V>
FRN_DEVICE void store_shared(V* p, V value) {
  *p = value;
}

FRN_DEVICE float widen(float v) { return v; }
FRN_DEVICE double widen(double v) { return v; }
FRN_DEVICE float widen(BFloat16 v) { return __uint_as_float(static_cast<unsigned>(v.bits) << 16); }
FRN_DEVICE float widen(Float16 v) { return __half2float(__ushort_as_half(v.bits)); }
FRN_DEVICE void narrow(float v, float& out) { out = v; }
FRN_DEVICE void narrow(double v, double& out) { out = v; }
FRN_DEVICE void narrow(float v, BFloat16& out) { out.bits = __bfloat16_as_ushort(__float2bfloat16_rn(v)); }
FRN_DEVICE void narrow(float v, Float16& out) { out.bits = __half_as_ushort(__float2half_rn(v)); }

FRN_DEVICE float multiply_add(float a, float b, float c) { return __fmaf_rn(a, b, c); }
FRN_DEVICE double multiply_add(double a, double b, double c) { return __fma_rn(a, b, c); }
FRN_DEVICE double square_root(double v) { return __dsqrt_rn(v); }
#else
using emulation::block_barrier;
using emulation::block_index;
using emulation::block_threads;
using emulation::load_global;
using emulation::load_shared;
using emulation::multiply_add;
using emulation::Pack;
using emulation::shared_memory;
using emulation::shuffle_xor;
using emulation::square_root;
using emulation::store_global;
using emulation::store_shared;
using emulation::thread_index;

inline float widen(BFloat16 v) { return to_float(v); }
inline float widen(Float16 v) { return to_float(v); }
inline float widen(float v) { return v; }
inline double widen(double v) { return v; }
template <typename A, typename T>
void narrow(A v, T& out) {
  from_float(v, out);
}
#endif

// Not of the standard library, which nvcc has for the host alone.
FRN_DEVICE bool is_finite(double v) { return v - v == 0; }
FRN_DEVICE int smaller(int a, int b) { return a < b ? a : b; }
FRN_DEVICE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }

// The sum over a team of `team` neighbouring lanes, the same in all of them: every lane adds the same pairs.
FRN_DEVICE double team_sum(double value, int team) {
  const unsigned first =
      static_cast<unsigned>(thread_index()) % kWarp / static_cast<unsigned>(team) * static_cast<unsigned>(team);
  const unsigned mask = (team == kWarp ? ~0u : (1u << team) - 1u) << first;
  for (int step = team / 2; step > 0; step /= 2) value += shuffle_xor(mask, value, step);
  return value;
}

}  // namespace frn::kernels::cuda
