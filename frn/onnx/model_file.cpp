// ModelProto and what it is made of. Numbers of fields from onnx.proto, which never change.
#include <span>

#include "frn/core/error.h"
#include "frn/core/protobuf.h"
#include "frn/core/whole_file.h"
#include "frn/onnx/graph.h"
#include "frn/version.h"

namespace frn::onnx {
namespace {

using protobuf::Message;

constexpr int64_t kIrVersion = 8;  // of the file's form: the first that has operators of version 18
constexpr int64_t kFloatType = 1;  // TensorProto.DataType
constexpr int64_t kInt64Type = 7;

template <class... T>
struct Overloaded : T... {
  using T::operator()...;
};

Message attribute_message(const std::string& name, const Attribute& attribute) {
  constexpr uint32_t kType = 20;
  Message out;
  out.bytes(1, name);
  std::visit(Overloaded{[&](int64_t value) { out.integer(3, value).integer(kType, 2); },
                        [&](float value) { out.real(2, value).integer(kType, 1); },
                        [&](const std::string& value) { out.bytes(4, value).integer(kType, 3); },
                        [&](const std::vector<int64_t>& values) {
                          for (const auto value : values) out.integer(8, value);
                          out.integer(kType, 7);
                        }},
             attribute);
  return out;
}

Message node_message(const Node& node) {
  Message out;
  for (const auto& name : node.inputs) out.bytes(1, name);
  out.bytes(2, node.output).bytes(3, node.output).bytes(4, node.op);  // a node has the name of its result
  for (const auto& [name, value] : node.attributes) out.message(5, attribute_message(name, value));
  return out;
}

// The tensor must be contiguous on the CPU, and live until the file is written.
Message tensor_message(const std::string& name, const at::Tensor& tensor) {
  Message out;
  for (const auto size : tensor.sizes()) out.integer(1, size);
  out.integer(2, tensor.scalar_type() == at::kLong ? kInt64Type : kFloatType).bytes(8, name);
  return out.borrowed(9, {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
}

Message port_message(const Port& port) {
  Message shape;
  for (const auto& dimension : port.shape) {
    Message size;
    if (const auto* number = std::get_if<int64_t>(&dimension)) size.integer(1, *number);
    if (const auto* name = std::get_if<std::string>(&dimension)) size.bytes(2, *name);
    shape.message(1, size);
  }
  const auto tensor = Message().integer(1, kFloatType).message(2, shape);
  return Message().bytes(1, port.name).message(2, Message().message(1, tensor));
}

Message graph_message(const Graph& graph) {
  Message out;
  for (const auto& node : graph.nodes) out.message(1, node_message(node));
  out.bytes(2, graph.name);
  for (const auto& [name, tensor] : graph.constants) out.message(5, tensor_message(name, tensor));
  for (const auto& port : graph.inputs) out.message(11, port_message(port));
  for (const auto& port : graph.outputs) out.message(12, port_message(port));
  return out;
}

}  // namespace

void write_model(const std::filesystem::path& path, const Graph& graph,
                 const std::map<std::string, std::string>& metadata) {
  Message model;
  model.integer(1, kIrVersion).bytes(2, "frn").bytes(3, FRN_VERSION);
  model.message(7, graph_message(graph));
  model.message(8, Message().bytes(1, "").integer(2, kOpset));
  for (const auto& [key, value] : metadata) model.message(14, Message().bytes(1, key).bytes(2, value));
  if (model.size() > protobuf::kLongestMessage) {
    throw Error("export", path.string() + ": an ONNX file must be shorter than 2 GB but would have " +
                              std::to_string(model.size()) + " bytes; export a smaller network, or to a hub folder");
  }
  WholeFile file(path, "export");
  for (const auto& piece : model.pieces()) file.write(piece);
  file.put_in_place();
}

}  // namespace frn::onnx
