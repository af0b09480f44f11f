#include "frn/onnx/export.h"

#include "frn/core/error.h"
#include "frn/onnx/graph.h"
#include "frn/onnx/recording.h"
#include "frn/onnx/translate.h"

namespace frn::onnx {
namespace {

std::map<std::string, at::Tensor> names_of(const torch::nn::Module& module) {
  std::map<std::string, at::Tensor> names;
  for (const auto& parameter : module.named_parameters()) names[parameter.key()] = parameter.value();
  for (const auto& buffer : module.named_buffers()) names[buffer.key()] = buffer.value();
  return names;
}

}  // namespace

ExportReport write_onnx(const std::filesystem::path& path, const torch::nn::Module& module,
                        const std::function<std::vector<at::Tensor>(const at::Tensor&)>& forward,
                        const ExportOptions& options) {
  if (module.is_training()) {
    throw Error("export", "the network must be in eval mode but is in training mode; call eval() first");
  }
  const auto recording =
      record(forward, {.sample = options.sample, .names = names_of(module), .knows = [](const std::string& name) {
                         return find_row(name) != nullptr;
                       }});
  auto graph = Translation(recording).run(options.input_name, options.output_names);
  graph.name = options.name;
  write_model(path, graph, options.metadata);
  ExportReport report{.nodes = graph.nodes.size()};
  for (const auto& [name, tensor] : graph.constants) {
    if (tensor.is_floating_point()) report.parameters += tensor.numel();
  }
  return report;
}

}  // namespace frn::onnx
