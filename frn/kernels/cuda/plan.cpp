#include "frn/kernels/cuda/plan.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>

namespace frn::kernels::cuda {
namespace {

// A block's values: small enough that several blocks share a multiprocessor and one loads while another computes.
constexpr int64_t kPatchBytes = int64_t{32} * 1024;
constexpr int64_t kSector = 32;     // what the memory moves at a time
constexpr int64_t kShortLine = 64;  // channels-last: bytes of a position that a block takes where it may choose

int64_t round_up(int64_t value, int64_t unit) { return (value + unit - 1) / unit * unit; }
int64_t divide_up(int64_t value, int64_t by) { return (value + by - 1) / by; }
int64_t power_of_two_below(int64_t value) {
  return static_cast<int64_t>(std::bit_floor(static_cast<uint64_t>(std::max<int64_t>(value, 1))));
}

int64_t inputs(const CallShape& call) { return call.backward ? 2 : 1; }
int64_t sums(const CallShape& call) { return call.backward ? int64_t{kGradientSums} : int64_t{kMoments}; }
bool contiguous(const CallShape& call) { return call.layout == Layout::kContiguous || call.positions == 1; }

int64_t tile_bytes(const CallShape& call, int64_t values) {
  return round_up(values * call.value_bytes + kPackBytes, kPackBytes);  // room for a shift to an address's alignment
}

// Lanes per part and parts per row. Contiguous: about four values a lane in small maps, then whole warps of twelve.
// Channels-last: neighbouring threads take neighbouring channels, and the rest of the block's threads other positions.
int64_t contiguous_parts(int64_t segment) {
  return std::min<int64_t>(power_of_two_below(segment / (int64_t{kWarp} * 12)), kWarp);
}

void cut_rows(const CallShape& call, int64_t threads, Cut& cut) {
  if (contiguous(call)) {
    cut.team = static_cast<int32_t>(std::min<int64_t>(power_of_two_below(cut.segment / 4), kWarp));
    cut.parts = static_cast<int32_t>(contiguous_parts(cut.segment));
    return;
  }
  // Few channels have many parts, whose sums take memory: then neighbouring lanes share one.
  const int64_t lanes = std::max<int64_t>(threads / cut.rows, 1);
  cut.team = static_cast<int32_t>(std::min<int64_t>(power_of_two_below(lanes / kWarp), 4));
  cut.parts = static_cast<int32_t>(std::clamp<int64_t>(lanes / cut.team, 1, cut.segment));
}

// A row's values and sums, at least. Maps of few values need more for their sums.
int64_t row_cost(const CallShape& call) {
  const int64_t parts = contiguous(call) ? contiguous_parts(call.positions) : 1;
  return inputs(call) * call.positions * call.value_bytes + parts * sums(call) * static_cast<int64_t>(sizeof(double));
}

// Enough that every thread has about a dozen values, half as many of double, and that blocks of this size fill half of
// a multiprocessor.
int64_t threads_for(const CallShape& call, int64_t values) {
  const int64_t bytes = inputs(call) * values * call.value_bytes;
  if (bytes > int64_t{46} * 1024) return 1024;
  if (bytes > int64_t{16} * 1024) return 512;
  return std::clamp<int64_t>(
      static_cast<int64_t>(std::bit_ceil(static_cast<uint64_t>(divide_up(values, call.value_bytes == 8 ? 6 : 12)))), 64,
      256);
}
int64_t threads_of(const CallShape& call, const Cut& cut) { return threads_for(call, int64_t{cut.rows} * cut.segment); }

void lay_out_shared_memory(const CallShape& call, Cut& cut) {
  const int64_t tile = tile_bytes(call, int64_t{cut.rows} * cut.segment);
  const int64_t sums_at = inputs(call) * tile;
  const int64_t groups_at = sums_at + sums(call) * cut.rows * cut.parts * static_cast<int64_t>(sizeof(double));
  const int64_t groups = cut.whole_groups ? divide_up(cut.rows, call.group_channels()) : 0;
  cut.shared = {static_cast<int32_t>(tile), static_cast<int32_t>(sums_at), static_cast<int32_t>(groups_at),
                static_cast<int32_t>(groups_at + groups * 2 * call.accumulate_bytes)};
}

Cut make_cut(const CallShape& call, bool whole_groups, int64_t rows, int64_t segment) {
  Cut cut{};
  cut.whole_groups = whole_groups;
  cut.contiguous = contiguous(call);
  cut.rows = static_cast<int32_t>(rows);
  cut.tiles = static_cast<int32_t>(divide_up(call.channels, rows));
  cut.segment = static_cast<int32_t>(segment);
  cut.segments = static_cast<int32_t>(divide_up(call.positions, segment));
  cut_rows(call, threads_of(call, cut), cut);
  const int64_t shares = call.group_channels() * cut.parts;
  cut.group_team = static_cast<int32_t>(std::min<int64_t>(power_of_two_below(shares), kWarp));
  lay_out_shared_memory(call, cut);
  return cut;
}

// Rows or groups of this cost for a block: as many as kPatchBytes holds, in steps of whole sectors, at least one step.
int64_t as_many_as_fit(int64_t cost, int64_t bytes_side_by_side) {
  const int64_t step = std::lcm(bytes_side_by_side, kSector) / bytes_side_by_side;
  return std::max(step, kPatchBytes / cost / step * step);
}

// Few groups are spread over all multiprocessors. Contiguous only, where a row's sums do not depend on its neighbours.
int64_t spread(const CallShape& call, const Device& device, int64_t groups) {
  return std::clamp<int64_t>(call.samples * call.groups / (2 * device.multiprocessors), 1, groups);
}

std::optional<Cut> cut_by_groups(const CallShape& call, const Device& device) {
  const int64_t group_channels = call.group_channels();
  const int64_t cost = group_channels * row_cost(call);
  if (cost > device.shared_per_block) return std::nullopt;
  const auto if_it_fits = [&](int64_t groups) -> std::optional<Cut> {
    if (groups * cost > device.shared_per_block) return std::nullopt;
    const Cut cut = make_cut(call, true, groups * group_channels, call.positions);
    if (cut.shared.bytes > device.shared_per_block) return std::nullopt;
    return cut;
  };
  if (contiguous(call)) {
    const int64_t groups = as_many_as_fit(cost, group_channels * call.positions * call.value_bytes);
    const auto cut = if_it_fits(spread(call, device, groups));
    return cut ? cut : if_it_fits(1);
  }
  // A position's line must be whole sectors, or a sector would be read by two blocks.
  return if_it_fits(std::min(as_many_as_fit(cost, group_channels * call.value_bytes), call.groups));
}

// Any rows over some positions.
Cut cut_anywhere(const CallShape& call) {
  const int64_t bytes = kPatchBytes / inputs(call);
  if (contiguous(call)) {
    const int64_t row_bytes = call.positions * call.value_bytes;
    if (row_bytes > bytes) return make_cut(call, false, 1, bytes / call.value_bytes);
    const int64_t rows = kPatchBytes / row_cost(call);
    return make_cut(call, false, std::max<int64_t>(1, rows > kSector ? rows / kSector * kSector : rows),
                    call.positions);
  }
  const int64_t rows = std::min(call.channels, kShortLine / call.value_bytes);
  return make_cut(call, false, rows, std::clamp<int64_t>(bytes / (rows * call.value_bytes), 1, call.positions));
}

Cut choose_cut(const CallShape& call, const Device& device) {
  if (call.norm != Norm::kIdentity) {
    if (const auto cut = cut_by_groups(call, device)) return *cut;
  }
  return cut_anywhere(call);
}

bool can_use_vectors(const CallShape& call, const Cut& cut) {
  const auto past = [](uintptr_t address) { return address % kPackBytes; };
  if (call.backward && past(call.dz) != past(call.x)) return false;
  if (call.writes && past(call.out) != past(call.x)) return false;
  if (cut.contiguous || cut.rows == call.channels) return true;
  return past(call.x) == 0 && call.channels * call.value_bytes % kPackBytes == 0 &&
         cut.rows * call.value_bytes % kPackBytes == 0;
}

class Steps {
 public:
  Steps(const CallShape& call, Plan& plan) : call_(call), plan_(plan) {}

  void add(Kernel kernel, int64_t first_sample, int64_t samples) {
    plan_.steps.push_back(
        {kernel, grid(kernel, samples), threads(kernel), shared_bytes(kernel), first_sample, samples});
  }

 private:
  static bool over_groups(Kernel k) { return k == Kernel::kForwardStatistics || k == Kernel::kBackwardStatistics; }
  static constexpr int32_t kSmallBlock = 256;

  int64_t grid(Kernel kernel, int64_t samples) const {
    if (kernel == Kernel::kSumSamples) return kPartials * divide_up(call_.channels, kWarp);
    if (over_groups(kernel)) return divide_up(samples * call_.groups, kSmallBlock / kWarp);
    const Cut& cut = plan_.cut;
    const int64_t tiles = cut.contiguous ? divide_up(samples * call_.channels, cut.rows) : samples * cut.tiles;
    return tiles * cut.segments;
  }
  int32_t threads(Kernel kernel) const {
    if (kernel == Kernel::kSumSamples || over_groups(kernel)) return kSmallBlock;
    return static_cast<int32_t>(threads_of(call_, plan_.cut));
  }
  int32_t shared_bytes(Kernel kernel) const {
    if (kernel == Kernel::kSumSamples) return kSmallBlock * static_cast<int32_t>(sizeof(double));
    if (over_groups(kernel)) return 0;
    const bool only_values = kernel == Kernel::kForwardApply || kernel == Kernel::kBackwardApply;
    return only_values ? plan_.cut.shared.sums : plan_.cut.shared.bytes;
  }

  const CallShape& call_;
  Plan& plan_;
};

// Samples whose values fill half of the L2 cache: the second kernel that reads them finds them there.
int64_t samples_at_once(const CallShape& call, const Device& device) {
  const int64_t bytes = inputs(call) * call.channels * call.positions * call.value_bytes;
  return std::clamp<int64_t>(device.l2_bytes / 2 / bytes, 1, std::max<int64_t>(call.samples, 1));
}

void add_steps(const CallShape& call, const Device& device, Plan& plan) {
  Steps steps(call, plan);
  const bool identity = call.norm == Norm::kIdentity;
  const int64_t all = call.samples;
  if (plan.cut.whole_groups) {
    steps.add(call.backward ? Kernel::kBackwardResident : Kernel::kForwardResident, 0, all);
  } else if (!call.backward && identity) {
    steps.add(Kernel::kForwardApply, 0, all);
  } else if (identity) {
    steps.add(Kernel::kBackwardSums, 0, all);
    if (call.parameter_gradients) steps.add(Kernel::kBackwardStatistics, 0, all);
  } else {
    const int64_t chunk = samples_at_once(call, device);
    for (int64_t first = 0; first < all; first += chunk) {
      const int64_t samples = std::min(chunk, all - first);
      steps.add(call.backward ? Kernel::kBackwardSums : Kernel::kForwardSums, first, samples);
      steps.add(call.backward ? Kernel::kBackwardStatistics : Kernel::kForwardStatistics, first, samples);
      if (call.writes) steps.add(call.backward ? Kernel::kBackwardApply : Kernel::kForwardApply, first, samples);
    }
  }
  if (call.backward && call.parameter_gradients) steps.add(Kernel::kSumSamples, 0, all);
}

}  // namespace

Plan plan_call(const CallShape& call, const Device& device) {
  Plan plan;
  plan.cut = choose_cut(call, device);
  plan.cut.vector = can_use_vectors(call, plan.cut);
  if (!plan.cut.whole_groups && (call.backward || call.norm != Norm::kIdentity)) {
    plan.sums = call.samples * plan.cut.segments * sums(call) * call.channels;
    plan.coefficients = call.backward ? call.samples * call.groups * 2 : 0;
  }
  add_steps(call, device, plan);
  return plan;
}

}  // namespace frn::kernels::cuda
