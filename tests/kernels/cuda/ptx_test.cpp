// The PTX that nvcc makes of the kernels, executed by an interpreter: the same bits as the emulator, which executes
// what the host's compiler makes of the same source. Skipped where there is no nvcc.
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "tests/kernels/cuda/cuda_call.h"
#include "tests/kernels/cuda/ptx/machine.h"
#include "tests/kernels/tolerance.h"

namespace frn::kernels::cuda {
namespace {

template <typename T>
constexpr const char* kTypeName = "";
template <>
constexpr const char* kTypeName<float> = "f32";
template <>
constexpr const char* kTypeName<double> = "f64";
template <>
constexpr const char* kTypeName<BFloat16> = "bf16";
template <>
constexpr const char* kTypeName<Float16> = "f16";

std::vector<ptx::Program> read_programs(const std::string& path) {
  std::ifstream stream(path);
  if (!stream) throw std::runtime_error("cannot read " + path);
  std::ostringstream text;
  text << stream.rdbuf();
  return ptx::parse(text.str());
}

// nvcc's name of a kernel has ours in it, after its length.
const ptx::Program& find_kernel(const std::vector<ptx::Program>& programs, Kernel kernel) {
  const auto name = std::string(kKernelNames[static_cast<size_t>(kernel)]);
  for (const auto& program : programs) {
    if (program.name.find(std::to_string(name.size()) + name + "I") != std::string::npos) return program;
  }
  throw std::runtime_error("no kernel " + name);
}

class PtxTest : public testing::TestWithParam<const char*> {
 protected:
  void SetUp() override {
#ifndef FRN_PTX
    GTEST_SKIP() << "there was no nvcc to compile the kernels with";
#endif
  }

  template <typename T>
  void check(const Call& call, const Device& device, std::vector<bool>& ran) {
#ifdef FRN_PTX
    const auto programs = read_programs(std::string(FRN_PTX) + "/" + kTypeName<T> + "." + GetParam() + ".ptx");
    const Launch<T> interpreted = [&](const Step& step, const Arguments<T>& a, emulation::Memory& memory) {
      std::vector<unsigned char> bytes(sizeof a);
      std::memcpy(bytes.data(), &a, sizeof a);
      ptx::Machine machine(find_kernel(programs, step.kernel), bytes, memory);
      machine.launch(step.grid, step.threads, static_cast<size_t>(step.shared_bytes));
      ran[static_cast<size_t>(step.kernel)] = true;
    };
    const auto in = make_inputs<T>(call);
    const Setting setting{device};
    const auto got = run_on_cuda<T>(call, in, setting, interpreted);
    expect_as_in_truth<T>(call, in, got);
    const auto emulated = emulate<T>(call, in, setting);
    EXPECT_EQ(got.z, emulated.z);
    EXPECT_EQ(got.dx, emulated.dx);
    EXPECT_EQ(got.dgamma, emulated.dgamma);
    EXPECT_EQ(got.dbeta, emulated.dbeta);
    EXPECT_EQ(got.dtau, emulated.dtau);
    EXPECT_EQ(got.dkappa, emulated.dkappa);
    EXPECT_EQ(got.deps, emulated.deps);
#endif
  }

  // A small map and one too large for a block, in both layouts; every kernel.
  template <typename T>
  void check_every_kernel() {
    std::vector<bool> ran(kKernelNames.size());
    for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      for (const auto norm : {Norm::kUncentered, Norm::kCentered}) {
        const auto threshold = norm == Norm::kCentered ? Threshold::kConstant : Threshold::kAffine;
        check<T>({{2, 6, 49}, norm == Norm::kCentered ? 2 : 6, layout, norm, threshold}, kRtx4090, ran);
      }
      const auto large = static_cast<int64_t>(size_t{56} * 1024 / sizeof(T) / 4);
      check<T>({{1, 4, large}, 1, layout, Norm::kCentered, Threshold::kAffine}, kTinyDevice, ran);
      check<T>({{1, 4, 300}, 4, layout, Norm::kIdentity, Threshold::kAffine}, kRtx4090, ran);
    }
    for (size_t i = 0; i < ran.size(); ++i) EXPECT_TRUE(ran[i]) << kKernelNames[i] << " did not run";
  }
};

TEST_P(PtxTest, FloatIsWhatTheEmulatorSays) { check_every_kernel<float>(); }
TEST_P(PtxTest, DoubleIsWhatTheEmulatorSays) { check_every_kernel<double>(); }
TEST_P(PtxTest, BFloat16IsWhatTheEmulatorSays) { check_every_kernel<BFloat16>(); }
TEST_P(PtxTest, Float16IsWhatTheEmulatorSays) { check_every_kernel<Float16>(); }

INSTANTIATE_TEST_SUITE_P(Architectures, PtxTest, testing::Values("sm_80", "sm_90"),
                         [](const auto& info) { return std::string(info.param); });

// The interpreter itself.
std::vector<ptx::Program> kernel_of(const std::string& body) {
  return ptx::parse(".visible .entry k(.param .align 8 .b8 k_param_0[8])\n{ .reg .b32 %r<9>;\n" + body + "\nret;\n}");
}

TEST(PtxInterpreter, AnUnknownInstructionIsAnError) {
  EXPECT_NO_THROW(kernel_of("add.s32 %r1, %r2, 1;"));
  EXPECT_THROW(kernel_of("popc.b32 %r1, %r2;"), ptx::Error);
  EXPECT_THROW(kernel_of("add.ftz.f32 %f1, %f2, %f3;"), ptx::Error);
  EXPECT_THROW(kernel_of("rsqrt.approx.f32 %f1, %f2;"), ptx::Error);
}

TEST(PtxInterpreter, ComputesAsTheIsaSays) {
  std::vector<uint32_t> out(4);
  const auto programs = kernel_of(R"(
    ld.param.u64 %rd1, [k_param_0];
    mov.u32 %r1, %tid.x;
    mul.lo.s32 %r2, %r1, -3;
    shr.s32 %r2, %r2, 1;
    setp.ne.s32 %p1, %r1, 2;
    @%p1 bra $SKIP;
    mov.u32 %r2, 77;
$SKIP:
    mul.wide.u32 %rd2, %r1, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.global.u32 [%rd3], %r2;)");
  std::vector<unsigned char> parameter(8);
  const uint32_t* const first = out.data();
  std::memcpy(parameter.data(), static_cast<const void*>(&first), sizeof first);
  emulation::Memory memory;
  memory.add("out", out.data(), 16, true);
  ptx::Machine(programs[0], parameter, memory).launch(1, 4, 0);
  EXPECT_EQ(out, (std::vector<uint32_t>{0, 0xfffffffeu, 77, 0xfffffffbu}));
  // A fifth thread writes beyond the end.
  EXPECT_THROW(ptx::Machine(programs[0], parameter, memory).launch(1, 5, 0), ptx::Error);
}

}  // namespace
}  // namespace frn::kernels::cuda
