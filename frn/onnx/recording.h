// What a network does to its input, as a list of calls of torch's operators. Nothing is asked of the network but to
// run: LibTorch tells of every operator (RecordFunction, the profiler's way in).
#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

namespace frn::onnx {

using Forward = std::function<std::vector<at::Tensor>(const at::Tensor&)>;

// A tensor at one moment: an operator that writes into its argument makes a new value of it.
using ValueId = int;
inline constexpr ValueId kNoValue = -1;

struct Value {
  bool from_input = false;              // it follows from the network's input; else it is a constant
  std::vector<int64_t> shape{};         // with 1 sample
  std::vector<int64_t> shape_of_two{};  // with 2
  at::Tensor constant{};                // of a constant
  std::string name{};     // of a constant: the parameter's, or that of the parameter that it was computed from
  std::string trouble{};  // why it cannot be followed; empty: it can
};

struct Argument {
  bool holds_tensors = false;
  std::vector<ValueId> tensors;  // one, those of a list, or kNoValue for a tensor that is missing
  c10::IValue other;             // what is not a tensor
  c10::IValue other_of_two;      // the same with 2 samples
};

struct Call {
  std::string name;  // "aten::add.Tensor"
  std::vector<Argument> arguments;
  std::vector<ValueId> results;
  std::vector<Call> inner;  // what it called itself, where it is not known
};

// Calls of which some argument follows from the input, in order.
struct Recording {
  std::vector<Call> calls;
  std::vector<Value> values;
  ValueId input = kNoValue;
  std::vector<ValueId> outputs;
};

struct RecordOptions {
  std::vector<int64_t> sample;              // the input's shape without the number of samples
  std::map<std::string, at::Tensor> names;  // parameters and buffers
  bool (*knows)(const std::string& operator_name);
};
// Runs the network without gradients, on one random sample and on two, so that sizes which follow from the number of
// samples are told from those that do not. Throws frn::Error when the two runs differ in more than that.
Recording record(const Forward& forward, const RecordOptions& options);

}  // namespace frn::onnx
