// What a training step of a network takes of this machine's memory, by running it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "frn/cli/bench_step.h"
#include "frn/core/value.h"

namespace frn::cli {

// "8GB", "500MB" or a number of bytes. Throws frn::Error.
int64_t parse_bytes(std::string_view text);

struct MeasuredNetwork {
  bool detects = false;
  int64_t smallest_size = 1;  // height and width, while training
  int64_t weight_bytes = 0;   // of the parameters
};

// With a limit, also the largest batch and image that fit it; 0: none does.
Value measure_memory(const StepOptions& step, const MeasuredNetwork& network, std::optional<int64_t> limit);
void print_memory(const Value& memory);

}  // namespace frn::cli
