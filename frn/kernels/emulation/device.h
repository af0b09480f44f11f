// The vocabulary of kernels/cuda/device.cuh for the host's compiler. Every access to memory goes through the emulator.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <source_location>

#define FRN_DEVICE inline __attribute__((always_inline))
#define FRN_KERNEL inline void
#define FRN_ARGUMENT const

namespace frn::kernels::emulation {

int thread_index();
int block_threads();
int64_t block_index();
void block_barrier();
unsigned char* shared_memory();

struct alignas(16) Pack {
  uint32_t words[4];
};

using Place = std::source_location;
enum class Access : uint8_t { kRead, kWrite };

// Throw Failure for an access that is misaligned, outside of the memory, or a race.
void touch_global(const void* p, size_t bytes, Access access, const Place& place);
void touch_shared(const void* p, size_t bytes, Access access, const Place& place);

template <typename V>
V load_global(const V* p, const Place& place = Place::current()) {
  touch_global(p, sizeof(V), Access::kRead, place);
  return *p;
}
template <typename V>
void store_global(V* p, V value, const Place& place = Place::current()) {
  touch_global(p, sizeof(V), Access::kWrite, place);
  *p = value;
}
template <typename V>
V load_shared(const V* p, const Place& place = Place::current()) {
  touch_shared(p, sizeof(V), Access::kRead, place);
  return *p;
}
template <typename V>
void store_shared(V* p, V value, const Place& place = Place::current()) {
  touch_shared(p, sizeof(V), Access::kWrite, place);
  *p = value;
}

// The value of lane (own lane ^ step), once all lanes of the mask are here. Orders no memory, as in CUDA.
uint64_t exchange(unsigned mask, uint64_t bits, int step, const Place& place);

inline double shuffle_xor(unsigned mask, double value, int step, const Place& place = Place::current()) {
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof bits);
  bits = exchange(mask, bits, step, place);
  std::memcpy(&value, &bits, sizeof bits);
  return value;
}

inline float multiply_add(float a, float b, float c) { return std::fma(a, b, c); }
inline double multiply_add(double a, double b, double c) { return std::fma(a, b, c); }
inline double square_root(double v) { return std::sqrt(v); }

}  // namespace frn::kernels::emulation
