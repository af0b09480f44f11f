// A call of the CUDA kernels on arrays of the host, forward then backward. How a launch is executed is given: by the
// emulator or by the interpreter of PTX.
#pragma once

#include <functional>

#include "frn/kernels/cuda/call.h"
#include "frn/kernels/emulation/emulator.h"
#include "tests/kernels/truth.h"

namespace frn::kernels::cuda {

// As much as the planner needs to know of them; from NVIDIA's data sheets and the CUDA C++ Programming Guide's table of
// compute capabilities.
inline constexpr Device kA100{int64_t{163} * 1024, 108, int64_t{40} << 20};
inline constexpr Device kH100{int64_t{227} * 1024, 132, int64_t{50} << 20};
inline constexpr Device kRtx4090{int64_t{99} * 1024, 128, int64_t{72} << 20};
// Has room for next to nothing: every call takes the way of large maps.
inline constexpr Device kTinyDevice{int64_t{40} * 1024, 2, int64_t{64} << 10};

struct Setting {
  Device device = kRtx4090;
  emulation::Order order = emulation::Order::kAscending;
  uint64_t seed = 0;
  bool count_requests = false;
  bool dx = true;
};

// What a launch of a step is: the kernel's argument, and the memory that it may touch.
template <typename T>
using Launch = std::function<void(const Step&, const Arguments<T>&, emulation::Memory&)>;

// Called after every launch, with the name of its kernel.
using AfterLaunch = std::function<void(const Step&, const emulation::Memory&)>;

template <typename T>
Results run_on_cuda(const Call& call, const Inputs& in, const Setting& setting, const Launch<T>& launch,
                    const AfterLaunch& after = {});

// By the emulator.
template <typename T>
Launch<T> emulated(const Setting& setting);
template <typename T>
Results emulate(const Call& call, const Inputs& in, const Setting& setting, const AfterLaunch& after = {}) {
  return run_on_cuda<T>(call, in, setting, emulated<T>(setting), after);
}

}  // namespace frn::kernels::cuda
