// Weights as safetensors files: a module's parameters and buffers by name, as PyTorch, torchvision and timm users know
// them.
#pragma once

#include <torch/nn/module.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace frn {

using NamedTensors = std::map<std::string, at::Tensor>;

// Parameters and buffers, of submodules too, sharing the module's memory.
NamedTensors state_of(const torch::nn::Module& module);

// Reads every tensor of a file. Throws frn::Error for a file that is not whole.
NamedTensors read_weights(const std::filesystem::path& path);

// What a file says besides its tensors: `frn convert` writes frn.model and frn.norm. Throws as read_weights does.
std::map<std::string, std::string> read_metadata(const std::filesystem::path& path);

// Writes beside and renames into place: the file is whole or not there. Tensors of any layout or device are written in
// row-major order.
void write_weights(const std::filesystem::path& path, const NamedTensors& tensors,
                   const std::map<std::string, std::string>& metadata = {});

enum class LoadMode {
  kStrict,   // everything fits or nothing is loaded and frn::Error lists all that does not, by name
  kPartial,  // what fits is loaded
};

struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;     // in the module, not among the tensors
  std::vector<std::string> unexpected;  // among the tensors, not in the module
  std::vector<std::string> misfits;     // in both, unlike in shape or kind: "name: [64] in the file, [32] in the model"

  // One paragraph for a person; empty when everything fitted.
  std::string to_string() const;
};

// Copies into the module's own memory, converting between floating-point types; other types must be the same.
LoadReport load_state(torch::nn::Module& module, const NamedTensors& tensors, LoadMode mode = LoadMode::kStrict);

}  // namespace frn
