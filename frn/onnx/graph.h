// onnx/ writes networks as ONNX models: recording.h watches the operators of a network, translate.h says each of them
// in ONNX's, and this file holds the graph between it and the file. Any torch callable will do; no models, no training.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace frn::onnx {

using Attribute = std::variant<int64_t, float, std::string, std::vector<int64_t>>;
using Attributes = std::vector<std::pair<std::string, Attribute>>;

struct Node {
  std::string op;                   // "Conv"
  std::vector<std::string> inputs;  // an empty name: an input that is left out
  std::string output;
  Attributes attributes{};
};

// A size, or the name of one that may be any: "batch".
using Dimension = std::variant<int64_t, std::string>;
struct Port {
  std::string name;
  std::vector<Dimension> shape{};
};

struct Graph {
  std::string name;
  std::vector<Port> inputs;                     // float32
  std::vector<Port> outputs;                    // float32
  std::vector<Node> nodes;                      // each after those whose results it takes
  std::map<std::string, at::Tensor> constants;  // float32 or int64
};

// Nodes are of this version of ONNX's operators.
inline constexpr int64_t kOpset = 18;

// The file is whole or not there. Throws frn::Error when it would be longer than ONNX files can be (2 GB), or cannot be
// written.
void write_model(const std::filesystem::path& path, const Graph& graph,
                 const std::map<std::string, std::string>& metadata);

}  // namespace frn::onnx
