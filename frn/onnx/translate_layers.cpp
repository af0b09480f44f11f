// Rows for convolutions, linear layers, pooling, sums, and operators that move numbers about.
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <array>
#include <cfloat>

#include "frn/onnx/translate.h"

namespace frn::onnx {
namespace {

// Above, left, below, right.
std::vector<int64_t> all_sides(const std::vector<int64_t>& padding) {
  return {padding.at(0), padding.at(1), padding.at(0), padding.at(1)};
}

std::vector<std::string> with_parameters(Translation& t, const Call& call) {
  std::vector<std::string> inputs{t.operand(tensor_of(call, 0)), t.operand(tensor_of(call, 1))};
  if (tensor_of(call, 2) != kNoValue) inputs.push_back(t.operand(tensor_of(call, 2)));
  return inputs;
}

void convolution(Translation& t, const Call& call, const std::vector<int64_t>& strides, size_t dilation,
                 int64_t groups) {
  const auto weight = numbers_of(t, call, 1);
  numbers_of(t, call, 2);
  const auto kernel = weight.sizes().slice(2).vec();
  const auto conv = t.node("Conv", with_parameters(t, call),
                           {{"kernel_shape", kernel},
                            {"strides", strides},
                            {"pads", all_sides(pair_of(call, 4))},
                            {"dilations", pair_of(call, dilation)},
                            {"group", groups}});
  t.may_take_scale(call);
  t.result(call, conv);
}

void conv2d(Translation& t, const Call& call) { convolution(t, call, pair_of(call, 3), 5, whole_of(call, 6)); }

// What a convolution with another form of padding comes down to.
void general_convolution(Translation& t, const Call& call) {
  const bool plain = !flag_of(call, 6) && numbers_of(t, call, 1).dim() == 4;
  if (!plain) refuse(call, "is a transposed convolution or one of another rank than 2, which cannot be exported");
  convolution(t, call, pair_of(call, 3), 5, whole_of(call, 8));
}

void linear(Translation& t, const Call& call) {
  if (t.value(tensor_of(call, 0)).shape.size() != 2) refuse(call, "must get [N, features] to be exported");
  numbers_of(t, call, 1);
  numbers_of(t, call, 2);
  const auto product = t.node("Gemm", with_parameters(t, call), {{"transB", int64_t{1}}});
  t.may_take_scale(call);
  t.result(call, product);
}

template <const char* kOp>
void one_input(Translation& t, const Call& call) {
  t.result(call, t.node(kOp, {t.operand(tensor_of(call, 0))}));
}

// In x * 2 torch takes the 2 for a number of x's type; ONNX wants it to be one.
std::string as_float(Translation& t, ValueId id) {
  const auto& value = t.value(id);
  const bool whole = !value.from_input && value.constant.defined() && !value.constant.is_floating_point();
  if (!whole || !value.trouble.empty()) return t.operand(id);
  return t.constant(value.name.empty() ? "numbers" : value.name, value.constant.to(at::kFloat));
}

template <const char* kOp>
void two_inputs(Translation& t, const Call& call) {
  if (call.arguments.size() > 2 && number_of(call, 2) != 1) refuse(call, "has a factor, which cannot be exported");
  t.result(call, t.node(kOp, {as_float(t, tensor_of(call, 0)), as_float(t, tensor_of(call, 1))}));
}

void unchanged(Translation& t, const Call& call) { t.result(call, t.operand(tensor_of(call, 0))); }

void dropout(Translation& t, const Call& call) {
  if (flag_of(call, 2)) refuse(call, "drops units; put the network into eval mode first");
  unchanged(t, call);
}

// Without a stride it is the kernel's size.
std::vector<int64_t> stride_of(const Call& call) {
  return list_of(call, 2).empty() ? pair_of(call, 1) : pair_of(call, 2);
}

void max_pool(Translation& t, const Call& call) {
  auto x = t.operand(tensor_of(call, 0));
  // ONNX Runtime 1.31 merges a Pad of zeros into the pooling after it, which pads with less than any number. What
  // stands between them changes nothing else.
  if (t.is_made_by(x, "Pad")) x = t.node("Max", {x, t.constant("lowest", at::full({}, -FLT_MAX))});
  t.result(call, t.node("MaxPool", {x},
                        {{"kernel_shape", pair_of(call, 1)},
                         {"strides", stride_of(call)},
                         {"pads", all_sides(pair_of(call, 3))},
                         {"dilations", pair_of(call, 4)},
                         {"ceil_mode", int64_t{flag_of(call, 5)}}}));
}

void average_pool(Translation& t, const Call& call) {
  if (flag_of(call, 4) || !call.arguments.at(6).other.isNone()) {
    refuse(call, "rounds sizes up or divides by a number of its own, which cannot be exported");
  }
  t.result(call, t.node("AveragePool", {t.operand(tensor_of(call, 0))},
                        {{"kernel_shape", pair_of(call, 1)},
                         {"strides", stride_of(call)},
                         {"pads", all_sides(pair_of(call, 3))},
                         {"count_include_pad", int64_t{flag_of(call, 5)}}}));
}

// [to, from]: the mean over the piece of `from` values that stands for each of `to`.
at::Tensor means_over_pieces(int64_t from, int64_t to) {
  auto out = at::zeros({to, from});
  for (int64_t i = 0; i < to; ++i) {
    const int64_t begin = i * from / to;
    const int64_t end = ((i + 1) * from + to - 1) / to;
    out.select(0, i).slice(0, begin, end).fill_(1.0 / static_cast<double>(end - begin));
  }
  return out;
}

// Pieces may be of unequal size and overlap, which ONNX's pooling does not know: then it is a matrix on each side.
void adaptive_average_pool(Translation& t, const Call& call) {
  const auto id = tensor_of(call, 0);
  const auto to = pair_of(call, 1);
  const int64_t height = t.value(id).shape.at(2);
  const int64_t width = t.value(id).shape.at(3);
  const auto x = t.operand(id);
  if (to[0] == height && to[1] == width) return t.result(call, x);
  if (height % to[0] == 0 && width % to[1] == 0) {
    const std::vector<int64_t> kernel{height / to[0], width / to[1]};
    return t.result(call, t.node("AveragePool", {x}, {{"kernel_shape", kernel}, {"strides", kernel}}));
  }
  const auto rows = t.node("MatMul", {t.constant("means_of_rows", means_over_pieces(height, to[0])), x});
  const auto columns = means_over_pieces(width, to[1]).t();
  t.result(call, t.node("MatMul", {rows, t.constant("means_of_columns", columns)}));
}

void mean(Translation& t, const Call& call) {
  const auto axes = t.whole_numbers("axes", list_of(call, 1));
  t.result(call,
           t.node("ReduceMean", {t.operand(tensor_of(call, 0)), axes}, {{"keepdims", int64_t{flag_of(call, 2)}}}));
}

void concatenate(Translation& t, const Call& call) {
  std::vector<std::string> inputs;
  for (const auto id : call.arguments.at(0).tensors) inputs.push_back(t.operand(id));
  t.result(call, t.node("Concat", inputs, {{"axis", whole_of(call, 1)}}));
}

void permute(Translation& t, const Call& call) {
  auto order = list_of(call, 1);
  for (auto& axis : order) axis += axis < 0 ? static_cast<int64_t>(order.size()) : 0;
  t.result(call, t.node("Transpose", {t.operand(tensor_of(call, 0))}, {{"perm", order}}));
}

void flatten(Translation& t, const Call& call) {
  const auto rank = static_cast<int64_t>(t.value(tensor_of(call, 0)).shape.size());
  const int64_t last = whole_of(call, 2);
  if (whole_of(call, 1) != 1 || (last != -1 && last != rank - 1)) {
    refuse(call, "must keep the first axis and no other to be exported");
  }
  t.result(call, t.node("Flatten", {t.operand(tensor_of(call, 0))}, {{"axis", int64_t{1}}}));
}

// A size that follows from the number of samples stays that of the input at its place, which ONNX writes as 0.
void reshape(Translation& t, const Call& call) {
  const auto& x = t.value(tensor_of(call, 0));
  auto shape = list_of(call, 1);
  const auto of_two = call.arguments.at(1).other_of_two.toIntVector();
  for (size_t i = 0; i < shape.size(); ++i) {
    if (shape[i] == of_two.at(i)) continue;
    if (i >= x.shape.size() || x.shape[i] != shape[i] || x.shape_of_two.at(i) != of_two[i]) {
      refuse(call, "mixes samples with other axes, which cannot be exported");
    }
    shape[i] = 0;
  }
  t.result(call, t.node("Reshape", {t.operand(tensor_of(call, 0)), t.whole_numbers("shape", shape)}));
}

// Where sizes are no multiples, rows and columns are taken by number: engines round the ratio each in its own way.
void upsample_nearest(Translation& t, const Call& call) {
  const auto id = tensor_of(call, 0);
  const auto to = list_of(call, 1);
  const std::vector<int64_t> from{t.value(id).shape.at(2), t.value(id).shape.at(3)};
  auto x = t.operand(id);
  if (!call.arguments.at(2).other.isNone()) refuse(call, "must get a size and no scale to be exported");
  if (to.at(0) % from[0] == 0 && to.at(1) % from[1] == 0) {
    return t.result(call, t.node("Resize", {x, "", "", t.whole_numbers("size", to)},
                                 {{"mode", std::string("nearest")},
                                  {"coordinate_transformation_mode", std::string("asymmetric")},
                                  {"nearest_mode", std::string("floor")},
                                  {"axes", std::vector<int64_t>{2, 3}}}));
  }
  for (int64_t axis = 0; axis < 2; ++axis) {
    const auto side = static_cast<size_t>(axis);
    std::vector<int64_t> places;
    // As torch does it, in float.
    const float scale = static_cast<float>(from[side]) / static_cast<float>(to[side]);
    for (int64_t i = 0; i < to[side]; ++i) {
      places.push_back(std::min(static_cast<int64_t>(static_cast<float>(i) * scale), from[side] - 1));
    }
    x = t.node("Gather", {x, t.constant("places", at::tensor(places, at::kLong))}, {{"axis", axis + 2}});
  }
  t.result(call, x);
}

// Torch has the last axis first, and pairs; ONNX has all begins, then all ends.
void pad(Translation& t, const Call& call) {
  const auto id = tensor_of(call, 0);
  const auto sides = list_of(call, 1);
  const auto rank = t.value(id).shape.size();
  std::vector<int64_t> pads(2 * rank, 0);
  for (size_t i = 0; i < sides.size() / 2; ++i) {
    pads[rank - 1 - i] = sides[2 * i];
    pads[2 * rank - 1 - i] = sides[2 * i + 1];
  }
  const auto number = at::full({}, number_of(call, 2));
  t.result(call, t.node("Pad", {t.operand(id), t.whole_numbers("pads", pads), t.constant("padding", number)},
                        {{"mode", std::string("constant")}}));
}

constexpr char kRelu[] = "Relu";
constexpr char kSigmoid[] = "Sigmoid";
constexpr char kTanh[] = "Tanh";
constexpr char kAdd[] = "Add";
constexpr char kMul[] = "Mul";

// The table of docs/export.md.
constexpr std::array kLayerRows{
    Row{.name = "aten::conv2d", .translate = conv2d},
    Row{.name = "aten::convolution", .translate = general_convolution},
    Row{.name = "aten::linear", .translate = linear},
    Row{.name = "aten::relu", .translate = one_input<kRelu>},
    Row{.name = "aten::relu_", .translate = one_input<kRelu>},
    Row{.name = "aten::sigmoid", .translate = one_input<kSigmoid>},
    Row{.name = "aten::tanh", .translate = one_input<kTanh>},
    Row{.name = "aten::add.Tensor", .translate = two_inputs<kAdd>},
    Row{.name = "aten::add_.Tensor", .translate = two_inputs<kAdd>},
    Row{.name = "aten::mul.Tensor", .translate = two_inputs<kMul>},
    Row{.name = "aten::mul_.Tensor", .translate = two_inputs<kMul>},
    Row{.name = "aten::contiguous", .translate = unchanged},
    Row{.name = "aten::dropout", .translate = dropout},
    Row{.name = "aten::max_pool2d", .translate = max_pool},
    Row{.name = "aten::avg_pool2d", .translate = average_pool},
    Row{.name = "aten::adaptive_avg_pool2d", .translate = adaptive_average_pool},
    Row{.name = "aten::mean.dim", .translate = mean},
    Row{.name = "aten::cat", .translate = concatenate},
    Row{.name = "aten::permute", .translate = permute},
    Row{.name = "aten::flatten.using_ints", .translate = flatten},
    Row{.name = "aten::reshape", .translate = reshape, .takes_batch = true},
    Row{.name = "aten::view", .translate = reshape, .takes_batch = true},
    Row{.name = "aten::upsample_nearest2d", .translate = upsample_nearest},
    Row{.name = "aten::constant_pad_nd", .translate = pad},
};

}  // namespace

std::span<const Row> layer_rows() { return kLayerRows; }

}  // namespace frn::onnx
