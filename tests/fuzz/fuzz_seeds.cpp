// fuzz_seeds FUZZER FOLDER: writes the inputs that a fuzzer starts from.
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "frn/core/safetensors.h"

namespace {

using frn::safetensors::Dtype;

std::string small_file() {
  static constexpr std::array<float, 2> kValues{1, 2};
  const auto bytes = std::as_bytes(std::span(kValues));
  return frn::safetensors::to_bytes({{"a.weight", {Dtype::kF32, {2, 1}, bytes}},
                                     {"a.num_batches_tracked", {Dtype::kI64, {}, bytes}},
                                     {"a.half", {Dtype::kBF16, {4}, bytes}},
                                     {"empty", {Dtype::kU8, {0, 3}, {}}}},
                                    {{"format", "pt"}});
}

// The two forms of file_of in safetensors_fuzz.cpp.
std::string whole(const std::string& file) { return std::string(1, '\0') + file; }
std::string header_of(char data_size, const std::string& header) { return std::string{'\1', data_size} + header; }

std::vector<std::string> safetensors_seeds() {
  const std::string file = small_file();
  return {whole(file), whole(frn::safetensors::to_bytes({})), header_of(24, file.substr(8, file.size() - 8 - 24)),
          header_of(2, R"({"\u00e9":{"data_offsets":[0,2],"shape":[1,1],"dtype":"F16"}})"),
          // A number of bytes that wraps around to 0, which no mutation finds in a minute.
          header_of(0, R"({"x":{"dtype":"U8","shape":[4294967296,4294967296],"data_offsets":[0,0]}})")};
}

std::vector<std::string> spec_seeds() {
  return {"frn+tlu", "gn(groups=32)+relu", "frn(eps=learned, eps_shape=channel)+tlu",
          "bn(momentum=1e-2,warmup=7)+prelu", "none+none"};
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 3) return 2;
  const std::filesystem::path folder = arguments[2];
  std::filesystem::create_directories(folder);
  const auto seeds = std::string_view(arguments[1]) == "safetensors_fuzz" ? safetensors_seeds() : spec_seeds();
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream file(folder / std::to_string(i), std::ios::binary);
    file << seeds[i];
    if (!file.flush()) {
      std::cerr << "fuzz_seeds: cannot write into " << folder << "\n";
      return 1;
    }
  }
}
