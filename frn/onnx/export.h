// A network as an ONNX file that any engine runs, for any number of samples.
#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace frn::onnx {

struct ExportOptions {
  std::string name = "network";
  std::vector<int64_t> sample{};  // the input's shape without the number of samples: [channels, height, width]
  std::string input_name = "images";
  std::vector<std::string> output_names = {"logits"};
  std::map<std::string, std::string> metadata = {};  // texts that the file carries
};

struct ExportReport {
  size_t nodes = 0;
  int64_t parameters = 0;  // numbers among the constants
};

// Runs the module, which must be in eval mode on the CPU, and writes what it did; `forward` calls it. Weights keep the
// names of the state dict. Throws frn::Error for an operator that has no translation, and for a network that does not
// do the same for every number of samples.
ExportReport write_onnx(const std::filesystem::path& path, const torch::nn::Module& module,
                        const std::function<std::vector<at::Tensor>(const at::Tensor&)>& forward,
                        const ExportOptions& options);

}  // namespace frn::onnx
