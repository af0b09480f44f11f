// Bytes that the kernels move, counted by the emulator in sectors of 32 bytes, each once per launch, in units of x.
// With FRN_ALL_CASES it is run on every map, and prints the table of docs/cuda.md.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/kernels/cuda/cuda_call.h"

namespace frn::kernels::cuda {
namespace {

// In units of x's sectors.
struct Moved {
  double read = 0;  // of x, and of dz in backward
  double written = 0;
  double other = 0;  // what else a sample has: statistics and shares of the parameters' gradients, both ways
  int launches = 0;
  double sectors_per_request = 0;
};
struct Row {
  bool one_kernel[2];
  Moved forward;
  Moved backward;
};

template <typename T>
Row measure(const Shape& shape, Layout layout, Device device) {
  device.multiprocessors = 1;  // as with many samples: a block has all that fits
  Call call{shape, shape.channels, layout, Norm::kUncentered, Threshold::kConstant};
  call.misalign = 0;
  call.eps_per_channel = true;
  Setting setting{device};
  setting.count_requests = true;
  Row row{};
  const double sectors = static_cast<double>(call.size() * static_cast<int64_t>(sizeof(T))) / 32;
  double requests[2] = {};
  double request_sectors[2] = {};
  const auto count = [&](const Step& step, const emulation::Memory& memory) {
    const bool backward = step.kernel >= Kernel::kBackwardResident;
    Moved& moved = backward ? row.backward : row.forward;
    ++moved.launches;
    if (step.kernel == Kernel::kForwardResident || step.kernel == Kernel::kBackwardResident) {
      row.one_kernel[backward ? 1 : 0] = true;
    }
    for (const char* name : {"x", "dz", "out"}) {
      const auto traffic = memory.traffic(name);
      moved.read += static_cast<double>(traffic.sectors_read) / sectors;
      moved.written += static_cast<double>(traffic.sectors_written) / sectors;
      requests[backward] += static_cast<double>(traffic.read_requests + traffic.write_requests);
      request_sectors[backward] += static_cast<double>(traffic.request_sectors);
    }
    for (const char* name : {"rstd", "sums", "coefficients", "partials"}) {
      const auto traffic = memory.traffic(name);
      moved.other += static_cast<double>(traffic.sectors_read + traffic.sectors_written) / sectors;
    }
  };
  emulate<T>(call, make_inputs<T>(call), setting, count);
  row.forward.sectors_per_request = request_sectors[0] / requests[0];
  row.backward.sectors_per_request = request_sectors[1] / requests[1];
  return row;
}

void print(const char* type, const Shape& map, Layout layout, const char* device, const Row& row) {
  const auto way = [&](int direction) { return row.one_kernel[direction] ? "once" : "twice, L2"; };
  std::printf("| %s | %lldx%lld | %s | %s | %s | %.3f | %.3f | %.3f | %s | %.3f | %.3f | %.3f | %.1f |\n", type,
              static_cast<long long>(map.channels), static_cast<long long>(map.positions),
              layout == Layout::kContiguous ? "contiguous" : "channels-last", device, way(0), row.forward.read,
              row.forward.written, row.forward.other, way(1), row.backward.read, row.backward.written,
              row.backward.other, row.forward.sectors_per_request);
}

template <typename T>
void check_map(const char* type, Shape shape, Layout layout, const char* device_name, const Device& device) {
  const Shape map = shape;
  shape.samples = 1;
  // Enough channels for some blocks; more would be more of the same.
  const int64_t a_line = shape.positions > 65536 ? 16 : shape.positions > 3136 ? 32 : 64;
  const int64_t few = layout == Layout::kContiguous ? 4 : a_line;
  shape.channels =
      std::min<int64_t>(shape.channels, std::max<int64_t>(few, int64_t{8} * 3136 / shape.positions / 16 * 16));
  const Row row = measure<T>(shape, layout, device);
  SCOPED_TRACE(testing::Message() << type << " " << map.channels << "x" << map.positions << " layout "
                                  << static_cast<int>(layout) << " on " << device_name);
  // Read once where a block can hold a group; else a second time, in pieces that L2 holds.
  EXPECT_LE(row.forward.read, row.one_kernel[0] ? 1.03 : 2.06);
  EXPECT_LE(row.forward.written, 1.03);
  EXPECT_LE(row.backward.read, row.one_kernel[1] ? 2.05 : 4.10);
  EXPECT_LE(row.backward.written, 1.03);
  // Whole sectors by all lanes of a warp: 16 bytes a lane are 16 sectors. Tails and short lines have fewer.
  EXPECT_GE(row.forward.sectors_per_request, 4);
  if (std::getenv("FRN_ALL_CASES") != nullptr) print(type, map, layout, device_name, row);
}

void check_file(const char* file) {
  const bool all = std::getenv("FRN_ALL_CASES") != nullptr;
  int turn = 0;
  for (const auto& shape : read_shapes(file, 2)) {
    for (const auto layout : {Layout::kContiguous, Layout::kChannelsLast}) {
      if (!all && (shape.positions > 3136 || ++turn % 3 != 0)) continue;
      check_map<float>("float32", shape, layout, "H100", kH100);
      if (!all) continue;
      check_map<float>("float32", shape, layout, "A100", kA100);
      check_map<float>("float32", shape, layout, "RTX 4090", kRtx4090);
      check_map<BFloat16>("bfloat16", shape, layout, "H100", kH100);
    }
  }
}

TEST(CudaTraffic, TheMapsOfResNetAreReadAndWrittenOnce) { check_file("resnetv2-50-224.txt"); }
TEST(CudaTraffic, TheMapsOfRetinaNetAreReadAndWrittenOnce) { check_file("retinanet-r50-1024.txt"); }

}  // namespace
}  // namespace frn::kernels::cuda
