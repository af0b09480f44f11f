// Rows for norms and activations. FRN is Mul, ReduceMean, Add, Sqrt, Div, Mul, Add, Max; the other norms of single
// samples are the same with a mean taken away and channels in groups. Batch norm, whose statistics are constants by
// now, goes into the weights before it or is Mul and Add.
#include <ATen/ops/ones_like.h>
#include <ATen/ops/sqrt.h>
#include <ATen/ops/zeros_like.h>

#include <array>
#include <numeric>

#include "frn/onnx/translate.h"

namespace frn::onnx {
namespace {

std::string reduced_mean(Translation& t, const std::string& x, const std::vector<int64_t>& axes) {
  if (axes.empty()) return x;  // of one value
  return t.node("ReduceMean", {x, t.whole_numbers("axes", axes)}, {{"keepdims", int64_t{1}}});
}

std::vector<int64_t> axes_from(int64_t first, size_t rank) {
  std::vector<int64_t> axes(rank - static_cast<size_t>(first));
  std::iota(axes.begin(), axes.end(), first);
  return axes;
}

// max(y, kappa*y + tau) with parts left out.
std::string activated(Translation& t, const Call& call, std::string y, ValueId x, size_t tau, size_t kappa,
                      const std::string& activation) {
  if (activation == "none") return y;
  if (activation == "relu") return t.node("Relu", {y});
  const auto& shape = t.value(x).shape;
  const auto parameter = [&](size_t argument) {
    numbers_of(t, call, argument);
    return t.constant(tensor_of(call, argument), per_channel_shape(shape.at(1), shape.size()));
  };
  std::string threshold;
  if (tensor_of(call, kappa) != kNoValue) threshold = t.node("Mul", {y, parameter(kappa)});
  if (tensor_of(call, tau) != kNoValue) {
    threshold = threshold.empty() ? parameter(tau) : t.node("Add", {threshold, parameter(tau)});
  }
  return t.node("Max", {y, threshold});
}

// y of a call whose weight stands at `first`, followed by bias, eps, tau, kappa, groups and centered.
std::string normalised(Translation& t, const Call& call, size_t first) {
  const auto id = tensor_of(call, 0);
  const auto shape = t.value(id).shape;
  const auto rank = shape.size();
  const int64_t channels = shape.at(1);
  const int64_t groups = whole_of(call, first + 5);
  auto x = t.operand(id);
  // Statistics of a channel, of a whole sample, or of groups of channels, which get an axis of their own.
  const bool grouped = groups != channels && groups != 1;
  const auto axes = grouped ? axes_from(2, 3) : axes_from(groups == channels ? 2 : 1, rank);
  if (grouped) x = t.node("Reshape", {x, t.whole_numbers("shape", {0, groups, -1})});
  if (flag_of(call, first + 6)) x = t.node("Sub", {x, reduced_mean(t, x, axes)});
  const auto square = reduced_mean(t, t.node("Mul", {x, x}), axes);
  const auto eps = numbers_of(t, call, first + 2);
  const auto eps_shape = eps.numel() == 1 ? std::vector<int64_t>{} : per_channel_shape(channels, rank);
  const auto root = t.node("Sqrt", {t.node("Add", {square, t.constant(tensor_of(call, first + 2), eps_shape)})});
  auto y = t.node("Div", {x, root});
  if (grouped) {
    auto whole = shape;
    whole[0] = 0;  // as many samples as there are
    y = t.node("Reshape", {y, t.whole_numbers("shape", whole)});
  }
  constexpr std::array<const char*, 2> kOps{"Mul", "Add"};
  for (size_t i = 0; i < kOps.size(); ++i) {
    if (!numbers_of(t, call, first + i).defined()) continue;
    y = t.node(kOps.at(i), {y, t.constant(tensor_of(call, first + i), per_channel_shape(channels, rank))});
  }
  return y;
}

void norm_act(Translation& t, const Call& call) {
  t.result(call, activated(t, call, normalised(t, call, 1), tensor_of(call, 0), 4, 5, text_of(call, 8)));
}

void norm_add_act(Translation& t, const Call& call) {
  const auto sum = t.node("Add", {normalised(t, call, 2), t.operand(tensor_of(call, 1))});
  t.result(call, activated(t, call, sum, tensor_of(call, 0), 5, 6, text_of(call, 9)));
}

void act(Translation& t, const Call& call) {
  const auto id = tensor_of(call, 0);
  t.result(call, activated(t, call, t.operand(id), id, 1, 2, text_of(call, 3)));
}

void batch_norm(Translation& t, const Call& call) {
  if (flag_of(call, 5)) refuse(call, "takes statistics of the batch; put the network into eval mode first");
  const auto id = tensor_of(call, 0);
  const auto mean = numbers_of(t, call, 3);
  const auto variance = numbers_of(t, call, 4);
  if (!mean.defined() || !variance.defined()) refuse(call, "has no running statistics, which ONNX needs");
  const auto given = [&](size_t argument, const at::Tensor& without) {
    const auto numbers = numbers_of(t, call, argument);
    return numbers.defined() ? numbers.to(at::kDouble) : without;
  };
  const auto wide = mean.to(at::kDouble);
  const auto scale = given(1, at::ones_like(wide)) / at::sqrt(variance.to(at::kDouble) + number_of(call, 7));
  const auto shift = given(2, at::zeros_like(wide)) - wide * scale;
  if (t.fold(id, scale, shift)) return t.result(call, t.operand(id));
  const auto& shape = t.value(id).shape;
  const auto beside = per_channel_shape(shape.at(1), shape.size());
  // Under the layer's own name.
  auto name = t.value(tensor_of(call, 3)).name;
  name = name.ends_with("running_mean") ? name.substr(0, name.size() - std::string_view("running_mean").size()) : "bn.";
  const auto scaled = t.node("Mul", {t.operand(id), t.constant(name + "scale", scale.reshape(beside))});
  t.result(call, t.node("Add", {scaled, t.constant(name + "shift", shift.reshape(beside))}));
}

constexpr std::array kNormRows{
    Row{.name = "frn::norm_act", .translate = norm_act},
    Row{.name = "frn::norm_add_act", .translate = norm_add_act},
    Row{.name = "frn::act", .translate = act},
    Row{.name = "aten::batch_norm", .translate = batch_norm},
};

}  // namespace

std::span<const Row> norm_rows() { return kNormRows; }

}  // namespace frn::onnx
