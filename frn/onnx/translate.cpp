#include "frn/onnx/translate.h"

#include <ATen/ops/equal.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "frn/core/error.h"

namespace frn::onnx {
namespace {

bool same_numbers(const c10::IValue& a, const c10::IValue& b) {
  if (a.isIntList() && b.isIntList()) return a.toIntVector() == b.toIntVector();
  if (a.isInt() && b.isInt()) return a.toInt() == b.toInt();
  if (a.isDouble() && b.isDouble()) return a.toDouble() == b.toDouble();
  if (a.isBool() && b.isBool()) return a.toBool() == b.toBool();
  return a.tagKind() == b.tagKind();
}

void check_numbers(const Call& call) {
  for (const auto& argument : call.arguments) {
    if (argument.holds_tensors || same_numbers(argument.other, argument.other_of_two)) continue;
    refuse(call, "takes a number that follows from the number of samples, which an ONNX file leaves open");
  }
}

// As files have them: plain memory, in float32 or int64.
at::Tensor plain(const at::Tensor& tensor) {
  return tensor.detach().to(at::kCPU, tensor.is_floating_point() ? at::kFloat : at::kLong).contiguous();
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

}  // namespace

const Row* find_row(std::string_view name) {
  for (const auto rows : {layer_rows(), norm_rows()}) {
    const auto found = std::find_if(rows.begin(), rows.end(), [&](const Row& row) { return row.name == name; });
    if (found != rows.end()) return &*found;
  }
  return nullptr;
}

Translation::Translation(const Recording& recording) : recording_(recording) {
  count_uses(recording.calls);
  for (const auto id : recording.outputs) ++uses_[id];
}

void Translation::count_uses(const std::vector<Call>& calls) {
  for (const auto& call : calls) {
    if (find_row(call.name) == nullptr) {
      count_uses(call.inner);
      continue;
    }
    for (const auto& argument : call.arguments) {
      for (const auto id : argument.tensors) ++uses_[id];
    }
  }
}

Graph Translation::run(const std::string& input_name, std::span<const std::string> output_names) {
  taken_.insert(input_name);
  taken_.insert(output_names.begin(), output_names.end());
  names_[recording_.input] = input_name;
  translate(recording_.calls);
  name_outputs(output_names);
  const auto port = [&](const std::string& name, ValueId id) {
    Port out{.name = name};
    const auto& [one, two] = std::pair(value(id).shape, value(id).shape_of_two);
    for (size_t i = 0; i < one.size(); ++i) {
      out.shape.push_back(one[i] == two.at(i) ? Dimension(one[i]) : Dimension("batch"));
    }
    return out;
  };
  graph_.inputs.push_back(port(input_name, recording_.input));
  for (size_t i = 0; i < output_names.size(); ++i) {
    graph_.outputs.push_back(port(output_names[i], recording_.outputs[i]));
  }
  return std::move(graph_);
}

void Translation::translate(const std::vector<Call>& calls) {
  for (const auto& call : calls) {
    if (const auto* const row = find_row(call.name)) {
      if (!row->takes_batch) check_numbers(call);
      row->translate(*this, call);
      continue;
    }
    translate(call.inner);
    for (const auto id : call.results) {
      if (!value(id).from_input || names_.contains(id)) continue;
      refuse(call, "has no translation to ONNX; docs/export.md lists the operators that have one");
    }
  }
}

void Translation::name_outputs(std::span<const std::string> output_names) {
  if (output_names.size() != recording_.outputs.size()) {
    throw Error("export", fmt::format("the network must give {} results but gives {}", output_names.size(),
                                      recording_.outputs.size()));
  }
  std::set<std::string> used{names_.at(recording_.input)};
  for (size_t i = 0; i < output_names.size(); ++i) {
    const auto id = recording_.outputs[i];
    if (!value(id).from_input) throw Error("export", output_names[i] + " must follow from the input but does not");
    const auto old = operand(id);
    if (!used.insert(old).second) {  // a result that is the input itself, or that is given twice
      graph_.nodes.push_back({.op = "Identity", .inputs = {old}, .output = output_names[i], .attributes = {}});
      continue;
    }
    for (auto& node : graph_.nodes) {
      if (node.output == old) node.output = output_names[i];
      std::replace(node.inputs.begin(), node.inputs.end(), old, output_names[i]);
    }
    for (auto& [other, name] : names_) {
      if (name == old) name = output_names[i];
    }
    used.insert(output_names[i]);
  }
}

std::string Translation::unique_name(const std::string& wanted) {
  auto name = wanted;
  for (int i = 2; !taken_.insert(name).second; ++i) name = fmt::format("{}_{}", wanted, i);
  return name;
}

std::string Translation::operand(ValueId id) {
  const auto& facts = value(id);
  if (!facts.trouble.empty()) throw Error("export", facts.trouble + ", which cannot be exported");
  if (!facts.from_input) return constant(id, facts.constant.sizes().vec());
  const auto found = names_.find(id);
  if (found == names_.end()) throw Error("export", "a value of the network was made by no known operator");
  return found->second;
}

std::string Translation::constant(ValueId id, const std::vector<int64_t>& shape) {
  auto& name = constants_[{id, shape}];
  if (!name.empty()) return name;
  const auto& facts = value(id);
  const auto numbers = plain(facts.constant).reshape(shape);
  if (facts.name.empty() && numbers.numel() == 1) {
    return name = constant(fmt::format("number_{:g}", facts.constant.item().toDouble()), numbers);
  }
  name = unique_name(facts.name.empty() ? "constant" : facts.name);
  graph_.constants[name] = numbers;
  return name;
}

std::string Translation::constant(const std::string& name, const at::Tensor& numbers) {
  const auto stored = plain(numbers);
  const auto found = graph_.constants.find(name);
  if (found != graph_.constants.end() && found->second.sizes() == stored.sizes() &&
      found->second.scalar_type() == stored.scalar_type() && at::equal(found->second, stored)) {
    return name;
  }
  const auto own = unique_name(name);
  graph_.constants[own] = stored;
  return own;
}

std::string Translation::whole_numbers(const std::string& name, const std::vector<int64_t>& numbers) {
  return constant(fmt::format("{}_{}", name, fmt::join(numbers, "_")), at::tensor(numbers, at::kLong));
}

std::string Translation::node(const std::string& op, std::vector<std::string> inputs, Attributes attributes) {
  const auto name = unique_name(fmt::format("{}_{}", lower(op), ++counter_));
  graph_.nodes.push_back({.op = op, .inputs = std::move(inputs), .output = name, .attributes = std::move(attributes)});
  return name;
}

bool Translation::is_made_by(const std::string& name, std::string_view op) const {
  return std::any_of(graph_.nodes.begin(), graph_.nodes.end(),
                     [&](const Node& node) { return node.output == name && node.op == op; });
}

void Translation::may_take_scale(const Call& call) {
  const auto id = call.results.at(0);
  bool alone = uses_[id] == 1;
  // Weights of several layers, as a detector's heads have them, would be stored once for each.
  for (size_t i = 1; i < call.arguments.size(); ++i) {
    const auto parameter = tensor_of(call, i);
    alone = alone && (parameter == kNoValue || uses_[parameter] == 1);
  }
  if (alone) layers_[id] = graph_.nodes.size() - 1;
}

bool Translation::fold(ValueId id, const at::Tensor& scale, const at::Tensor& shift) {
  const auto found = layers_.find(id);
  if (found == layers_.end()) return false;
  auto& layer = graph_.nodes[found->second];
  auto& weight = graph_.constants.at(layer.inputs.at(1));
  std::vector<int64_t> per_filter(static_cast<size_t>(weight.dim()), 1);
  per_filter[0] = -1;
  weight = plain(weight.to(at::kDouble) * scale.reshape(per_filter));
  if (layer.inputs.size() > 2) {
    auto& bias = graph_.constants.at(layer.inputs[2]);
    bias = plain(bias.to(at::kDouble) * scale + shift);
    return true;
  }
  auto name = layer.inputs[1];
  if (name.ends_with(".weight")) name.resize(name.size() - std::string_view("weight").size());
  name = unique_name(name + "bias");
  graph_.constants[name] = plain(shift);
  layer.inputs.push_back(name);
  return true;
}

// --- Arguments ---

void refuse(const Call& call, const std::string& sentence) {
  throw Error("export", "the network's operator " + call.name + " " + sentence);
}

ValueId tensor_of(const Call& call, size_t argument) {
  const auto& tensors = call.arguments.at(argument).tensors;
  return tensors.empty() ? kNoValue : tensors.front();
}
int64_t whole_of(const Call& call, size_t argument) { return call.arguments.at(argument).other.toInt(); }
double number_of(const Call& call, size_t argument) { return call.arguments.at(argument).other.toScalar().toDouble(); }
bool flag_of(const Call& call, size_t argument) { return call.arguments.at(argument).other.toBool(); }
std::string text_of(const Call& call, size_t argument) { return call.arguments.at(argument).other.toStringRef(); }
std::vector<int64_t> list_of(const Call& call, size_t argument) {
  return call.arguments.at(argument).other.toIntVector();
}

std::vector<int64_t> pair_of(const Call& call, size_t argument) {
  auto out = list_of(call, argument);
  if (out.size() == 1) out.push_back(out.front());
  return out;
}

at::Tensor numbers_of(const Translation& translation, const Call& call, size_t argument) {
  const auto id = tensor_of(call, argument);
  if (id == kNoValue) return {};
  const auto& value = translation.value(id);
  if (value.from_input) refuse(call, "takes parameters that follow from the input, which cannot be exported");
  return value.constant;
}

std::vector<int64_t> per_channel_shape(int64_t channels, size_t rank) {
  std::vector<int64_t> shape(rank - 1, 1);
  shape[0] = channels;
  return shape;
}

}  // namespace frn::onnx
