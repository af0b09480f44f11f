// What ptxas makes of the kernels: nothing kept in local memory, accesses of 16 bytes, and enough threads at a time to
// hide the memory's latency. Skipped where there is no nvcc; one type here, all of them with FRN_ALL_CASES.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>

#include "tests/kernels/cuda/cubin.h"
#include "tests/kernels/cuda/cuda_call.h"

#ifdef FRN_NVCC
#include <cuda_occupancy.h>
#endif

namespace frn::kernels::cuda {
namespace {

struct Target {
  const char* type;
  const char* architecture;
  const char* name;
  Device device;
  int major;
  int minor;
  int threads_per_multiprocessor;
  int shared_per_multiprocessor;
};

class MachineCodeTest : public testing::TestWithParam<Target> {
 protected:
  void SetUp() override {
#ifndef FRN_NVCC
    GTEST_SKIP() << "there was no nvcc to compile the kernels with";
#else
    const bool all = std::getenv("FRN_ALL_CASES") != nullptr;
    if (std::string(GetParam().type) != "f32" && !all) GTEST_SKIP() << "set FRN_ALL_CASES for other types than f32";
    compile();
#endif
  }

#ifdef FRN_NVCC
  // Once, and again when a source is newer.
  void compile() {
    namespace fs = std::filesystem;
    fs::create_directories(FRN_CUBINS);
    const fs::path out =
        fs::path(FRN_CUBINS) / (std::string(GetParam().type) + "." + GetParam().architecture + ".cubin");
    const fs::path folder = fs::path(FRN_SOURCE) / "frn/kernels/cuda";
    bool old = !fs::exists(out);
    for (const auto& source : fs::directory_iterator(folder)) {
      old = old || fs::last_write_time(source) > fs::last_write_time(out);
    }
    const std::string command = std::string("'") + FRN_NVCC + "' -std=c++20 -O3 -fmad=false '-I" + FRN_SOURCE +
                                "' -cubin -arch=" + GetParam().architecture + " '" +
                                (folder / GetParam().type).string() + ".cu' -o '" + out.string() + "'";
    if (old) {
      // A command of the build's own paths. NOLINTNEXTLINE(bugprone-command-processor)
      ASSERT_EQ(std::system(command.c_str()), 0) << command;
    }
    kernels_ = cubin::read(out.string());
  }

  const cubin::Kernel& find(Kernel kernel) const {
    const auto name = std::string(kKernelNames[static_cast<size_t>(kernel)]);
    for (const auto& one : kernels_) {
      if (one.name.find(std::to_string(name.size()) + name + "I") != std::string::npos) return one;
    }
    throw std::runtime_error("no kernel " + name);
  }

  double occupancy(const Step& step) const {
    const Target& t = GetParam();
    cudaOccDeviceProp device{};
    device.computeMajor = t.major;
    device.computeMinor = t.minor;
    device.maxThreadsPerBlock = kMaxThreads;
    device.maxThreadsPerMultiprocessor = t.threads_per_multiprocessor;
    device.regsPerBlock = 65536;
    device.regsPerMultiprocessor = 65536;
    device.warpSize = kWarp;
    device.sharedMemPerBlock = size_t{48} * 1024;
    device.sharedMemPerMultiprocessor = static_cast<size_t>(t.shared_per_multiprocessor);
    device.numSms = static_cast<int>(t.device.multiprocessors);
    device.sharedMemPerBlockOptin = static_cast<size_t>(t.device.shared_per_block);
    device.reservedSharedMemPerBlock = 1024;
    cudaOccFuncAttributes function{};
    function.maxThreadsPerBlock = kMaxThreads;
    function.numRegs = find(step.kernel).registers;
    function.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    function.maxDynamicSharedSizeBytes = static_cast<size_t>(t.device.shared_per_block);
    function.numBlockBarriers = 1;
    const cudaOccDeviceState state{};
    cudaOccResult result{};
    const auto error = cudaOccMaxActiveBlocksPerMultiprocessor(&result, &device, &function, &state, step.threads,
                                                               static_cast<size_t>(step.shared_bytes));
    EXPECT_EQ(error, CUDA_OCC_SUCCESS);
    return static_cast<double>(result.activeBlocksPerMultiprocessor * step.threads) / t.threads_per_multiprocessor;
  }
#endif

  void expect_nothing_in_local_memory() const;
  void expect_accesses_of_sixteen_bytes() const;
  void expect_half_of_the_threads_at_a_time() const;

  int64_t value_bytes() const {
    const std::string type = GetParam().type;
    return type == "f32" ? 4 : type == "f64" ? 8 : 2;
  }

  std::vector<cubin::Kernel> kernels_;
};

#ifdef FRN_NVCC
void MachineCodeTest::expect_nothing_in_local_memory() const {
  EXPECT_EQ(kernels_.size(), kKernelNames.size());
  for (const auto& kernel : kernels_) {
    EXPECT_EQ(kernel.stack_bytes, 0) << kernel.name;
    EXPECT_EQ(kernel.local_accesses, 0) << kernel.name;
    EXPECT_GT(kernel.registers, 0) << kernel.name;
    EXPECT_LE(kernel.registers, 64) << kernel.name;  // blocks of 1024 threads fit
  }
}

void MachineCodeTest::expect_accesses_of_sixteen_bytes() const {
  for (const auto kernel : {Kernel::kForwardResident, Kernel::kForwardSums, Kernel::kForwardApply,
                            Kernel::kBackwardResident, Kernel::kBackwardSums, Kernel::kBackwardApply}) {
    const auto& code = find(kernel);
    EXPECT_GE(code.global_loads_128, kernel >= Kernel::kBackwardResident ? 2 : 1) << code.name;
    if (kernel == Kernel::kForwardSums) continue;
    EXPECT_GE(code.global_stores_128, 1) << code.name;
  }
}

void MachineCodeTest::expect_half_of_the_threads_at_a_time() const {
  for (const char* file : {"resnetv2-50-224.txt", "retinanet-r50-1024.txt"}) {
    for (const auto& shape : read_shapes(file, 32)) {
      for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
        for (const bool backward : {false, true}) {
          CallShape call;
          call.samples = shape.samples;
          call.channels = call.groups = shape.channels;
          call.positions = shape.positions;
          call.value_bytes = value_bytes();
          call.accumulate_bytes = call.value_bytes == 8 ? 8 : 4;
          call.layout = layout;
          call.norm = Norm::kUncentered;
          call.backward = call.parameter_gradients = backward;
          for (const Step& step : plan_call(call, GetParam().device).steps) {
            EXPECT_GE(occupancy(step), 0.5)
                << kKernelNames[static_cast<size_t>(step.kernel)] << " on " << GetParam().name << ", " << shape.channels
                << "x" << shape.positions << " layout " << static_cast<int>(layout) << ": " << step.threads
                << " threads, " << step.shared_bytes << " bytes";
          }
        }
      }
    }
  }
}
#endif

// One test for the three: each would compile the kernels.
TEST_P(MachineCodeTest, HasNoLocalMemoryWideAccessesAndHalfOfTheThreads) {
#ifdef FRN_NVCC
  expect_nothing_in_local_memory();
  expect_accesses_of_sixteen_bytes();
  expect_half_of_the_threads_at_a_time();
#endif
}

// From the data sheets and the CUDA C++ Programming Guide's table of compute capabilities.
std::vector<Target> targets() {
  std::vector<Target> out;
  for (const char* type : {"f32", "f64", "bf16", "f16"}) {
    out.push_back({type, "sm_80", "A100", kA100, 8, 0, 2048, 164 * 1024});
    out.push_back({type, "sm_89", "RTX4090", kRtx4090, 8, 9, 1536, 100 * 1024});
    out.push_back({type, "sm_90", "H100", kH100, 9, 0, 2048, 228 * 1024});
  }
  return out;
}
INSTANTIATE_TEST_SUITE_P(All, MachineCodeTest, testing::ValuesIn(targets()),
                         [](const auto& info) { return std::string(info.param.type) + "_" + info.param.name; });

}  // namespace
}  // namespace frn::kernels::cuda
