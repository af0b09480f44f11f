// From torch's operators to ONNX's: one row for each that a network may call. An operator without a row is taken apart
// into those that it calls itself; one that calls none is refused by name.
#pragma once

#include <map>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "frn/onnx/graph.h"
#include "frn/onnx/recording.h"

namespace frn::onnx {

// A graph in the making, and what rows need to add to it.
class Translation {
 public:
  explicit Translation(const Recording& recording);

  // The results of the network get these names.
  Graph run(const std::string& input_name, std::span<const std::string> output_names);

  // --- For rows ---

  const Value& value(ValueId id) const { return recording_.values[static_cast<size_t>(id)]; }
  // The name of a value or a constant as an input of a node.
  std::string operand(ValueId id);
  // A constant with its numbers in this shape.
  std::string constant(ValueId id, const std::vector<int64_t>& shape);
  // Numbers of our own; the same numbers under the same name are stored once.
  std::string constant(const std::string& name, const at::Tensor& numbers);
  std::string whole_numbers(const std::string& name, const std::vector<int64_t>& numbers);

  // Adds a node and gives the name of its result.
  std::string node(const std::string& op, std::vector<std::string> inputs, Attributes attributes = {});
  bool is_made_by(const std::string& name, std::string_view op) const;
  // Says which name the call's result has.
  void result(const Call& call, const std::string& name) { names_[call.results.at(0)] = name; }

  // A convolution or linear layer, node(...) of which has been called last: a batch norm may go into its weights if
  // nobody else sees its result or has its weights.
  void may_take_scale(const Call& call);
  // Multiplies the layer's outputs, of which `id` is the result, by scale [C] and adds shift [C], in its weights.
  // False: no layer can take it.
  bool fold(ValueId id, const at::Tensor& scale, const at::Tensor& shift);

 private:
  void count_uses(const std::vector<Call>& calls);
  void translate(const std::vector<Call>& calls);
  std::string unique_name(const std::string& wanted);
  void name_outputs(std::span<const std::string> output_names);

  const Recording& recording_;
  Graph graph_;
  std::unordered_map<ValueId, std::string> names_;
  std::map<std::pair<ValueId, std::vector<int64_t>>, std::string> constants_;
  std::unordered_map<ValueId, int> uses_;
  std::unordered_map<ValueId, size_t> layers_;  // nodes that may take a scale, by their result
  std::set<std::string> taken_;
  int counter_ = 0;
};

struct Row {
  std::string_view name;  // "aten::add.Tensor"
  void (*translate)(Translation&, const Call&);
  bool takes_batch = false;  // its numbers may follow from the number of samples
};
std::span<const Row> layer_rows();  // translate_layers.cpp
std::span<const Row> norm_rows();   // translate_norms.cpp
const Row* find_row(std::string_view name);

// --- Arguments of a call ---

// Throws frn::Error "[export] OPERATOR sentence".
[[noreturn]] void refuse(const Call& call, const std::string& sentence);
ValueId tensor_of(const Call& call, size_t argument);  // kNoValue when it is missing
int64_t whole_of(const Call& call, size_t argument);
double number_of(const Call& call, size_t argument);
bool flag_of(const Call& call, size_t argument);
std::string text_of(const Call& call, size_t argument);
std::vector<int64_t> list_of(const Call& call, size_t argument);
// A height and a width; one number stands for both.
std::vector<int64_t> pair_of(const Call& call, size_t argument);

// The numbers of a constant; undefined when the argument is missing. Refuses what follows from the input.
at::Tensor numbers_of(const Translation& translation, const Call& call, size_t argument);

// [C] beside x of this rank: [C, 1, ...].
std::vector<int64_t> per_channel_shape(int64_t channels, size_t rank);

}  // namespace frn::onnx
