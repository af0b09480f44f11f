#include "frn/cli/info_memory.h"

#include <fmt/format.h>

#include <array>
#include <charconv>
#include <cmath>

#include "frn/cli/allocator.h"
#include "frn/core/error.h"

namespace frn::cli {
namespace {

struct Bytes {
  double kept;
  double peak;  // of a step, gradients included
};

Bytes measure(const StepOptions& options, bool detects) {
  auto step = detects ? detector_step(options) : BenchStep(options);
  step.run();  // makes the optimiser's memory, which is counted with the weights
  const auto kept = static_cast<double>(step.kept_bytes());
  return {.kept = kept, .peak = 1e6 * peak_megabytes([&] { step.run(); })};
}

// Of a step's peak that fits beside weights and the optimiser's memory. A step takes the same for every image, and
// gradients and what rounds up besides: two measurements give both.
int64_t largest_batch(const StepOptions& options, bool detects, double peak, double room) {
  auto twice = options;
  twice.batch_per_device *= 2;
  const double per_image = (measure(twice, detects).peak - peak) / static_cast<double>(options.batch_per_device);
  const double fixed = peak - per_image * static_cast<double>(options.batch_per_device);
  return std::max<int64_t>(0, static_cast<int64_t>(std::floor((room - fixed) / per_image)));
}

// A smaller image to compare with, or, where the network takes none, a larger one; strides divide both.
int64_t another_size(int64_t size, int64_t smallest) {
  constexpr int64_t kStride = 32;
  const int64_t half = size / 2 / kStride * kStride;
  return half >= std::max(kStride, smallest) ? half : (size * 3 / 2 + kStride - 1) / kStride * kStride;
}

int64_t largest_image(const StepOptions& options, const MeasuredNetwork& network, double peak, double room) {
  auto other = options;
  other.size = another_size(options.size, network.smallest_size);
  const auto pixels = [](int64_t size) { return static_cast<double>(size * size); };
  const double per_pixel = (peak - measure(other, network.detects).peak) / (pixels(options.size) - pixels(other.size));
  const double fixed = peak - per_pixel * pixels(options.size);
  if (per_pixel <= 0 || room <= fixed) return 0;
  const int64_t largest = static_cast<int64_t>(std::sqrt((room - fixed) / per_pixel)) / 32 * 32;
  return largest >= network.smallest_size ? largest : 0;
}

}  // namespace

int64_t parse_bytes(std::string_view text) {
  double number = 0;
  const auto* const end = text.data() + text.size();
  const auto [rest, wrong] = std::from_chars(text.data(), end, number);
  const std::string_view unit(rest, static_cast<size_t>(end - rest));
  constexpr std::array<std::pair<std::string_view, double>, 7> kUnits{
      {{"", 1}, {"B", 1}, {"MB", 1e6}, {"GB", 1e9}, {"MiB", 0x1p20}, {"GiB", 0x1p30}, {"TB", 1e12}}};
  for (const auto& [name, factor] : kUnits) {
    if (wrong == std::errc() && unit == name && number > 0 && number * factor < 1e18) {
      return static_cast<int64_t>(number * factor);
    }
  }
  throw Error("limit",
              "memory is given as a number with MB, GB, MiB or GiB, such as 8GB, but is '" + std::string(text) + "'");
}

Value measure_memory(const StepOptions& step, const MeasuredNetwork& network, std::optional<int64_t> limit) {
  Value out{{"batch_per_device", step.batch_per_device},
            {"size", step.size},
            {"classes", step.classes},
            {"weights_and_momentum_megabytes", 2e-6 * static_cast<double>(network.weight_bytes)},
            {"rows", Value::empty_list()}};
  if (limit) out["limit_megabytes"] = 1e-6 * static_cast<double>(*limit);
  for (const auto* const memory : {"least", "fast"}) {
    auto options = step;
    options.memory = memory;
    const auto bytes = measure(options, network.detects);
    Value row{{"memory", memory}, {"kept_megabytes", 1e-6 * bytes.kept}, {"peak_megabytes", 1e-6 * bytes.peak}};
    if (limit) {
      const double room = static_cast<double>(*limit) - 2.0 * static_cast<double>(network.weight_bytes);
      row["largest_batch"] = largest_batch(options, network.detects, bytes.peak, room);
      row["largest_image"] = largest_image(options, network, bytes.peak, room);
    }
    out["rows"].push_back(row);
  }
  return out;
}

void print_memory(const Value& memory) {
  fmt::print("\nMemory of a training step, measured: float32, SGD with momentum, {} images of {} px, {} classes\n",
             memory["batch_per_device"].as_whole(), memory["size"].as_whole(), memory["classes"].as_whole());
  const double fixed = memory["weights_and_momentum_megabytes"].as_number();
  const bool limited = memory.find("limit_megabytes") != nullptr;
  fmt::print("{:<10}{:>24}{:>18}{:>28}", "--memory", "kept for gradients, MB", "peak of a step",
             "with weights and momentum");
  if (limited) fmt::print("{:>16}{:>16}", "largest batch", "largest image");
  fmt::print("\n");
  for (const auto& row : memory["rows"].as_list()) {
    const double peak = row["peak_megabytes"].as_number();
    fmt::print("{:<10}{:>24.0f}{:>18.0f}{:>28.0f}", row["memory"].as_text(), row["kept_megabytes"].as_number(), peak,
               peak + fixed);
    if (limited) {
      const auto or_none = [](int64_t number, const char* unit) {
        return number > 0 ? std::to_string(number) + unit : std::string("none fits");
      };
      fmt::print("{:>16}{:>16}", or_none(row["largest_batch"].as_whole(), ""),
                 or_none(row["largest_image"].as_whole(), " px"));
    }
    fmt::print("\n");
  }
  if (!limited) return;
  fmt::print(
      "Largest within {:.0f} MB, the other as measured; from two measurements each, not tried. The program itself and "
      "images on their way take some hundred MB more.\n",
      memory["limit_megabytes"].as_number());
}

}  // namespace frn::cli
