#include "frn/nn/weights.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <utility>

#include "frn/core/error.h"
#include "frn/core/safetensors.h"
#include "frn/core/text.h"

namespace frn {
namespace {

using safetensors::Dtype;

constexpr std::array<std::pair<Dtype, at::ScalarType>, 10> kTypes{{{Dtype::kF64, at::kDouble},
                                                                   {Dtype::kF32, at::kFloat},
                                                                   {Dtype::kF16, at::kHalf},
                                                                   {Dtype::kBF16, at::kBFloat16},
                                                                   {Dtype::kI64, at::kLong},
                                                                   {Dtype::kI32, at::kInt},
                                                                   {Dtype::kI16, at::kShort},
                                                                   {Dtype::kI8, at::kChar},
                                                                   {Dtype::kU8, at::kByte},
                                                                   {Dtype::kBool, at::kBool}}};

at::ScalarType scalar_type_of(Dtype dtype) {
  return std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& row) { return row.first == dtype; })->second;
}

std::optional<Dtype> dtype_of(at::ScalarType type) {
  const auto row = std::find_if(kTypes.begin(), kTypes.end(), [&](const auto& r) { return r.second == type; });
  return row == kTypes.end() ? std::nullopt : std::optional(row->first);
}

std::string type_name(at::ScalarType type) { return std::string(c10::getDtypeNames(type).first); }

// Whether it has numbers in memory that can be copied one by one.
bool has_values(const at::Tensor& tensor) {
  return tensor.defined() && tensor.layout() == at::kStrided && !tensor.is_meta() && !tensor.is_quantized();
}

// Row-major on the CPU; the tensor itself where it is that already.
at::Tensor plain(const std::string& name, const at::Tensor& tensor) {
  if (!has_values(tensor)) {
    throw Error("write_weights", "tensor '" + name + "' must be a dense tensor with values but is " +
                                     (tensor.defined() ? std::string(tensor.toString()) : "undefined"));
  }
  if (!dtype_of(tensor.scalar_type())) {
    throw Error("write_weights", "tensor '" + name +
                                     "' must be of a floating-point, integer or boolean type that safetensors files "
                                     "have, but is of " +
                                     type_name(tensor.scalar_type()) + "; convert it first");
  }
  return tensor.detach().cpu().resolve_neg().contiguous();
}

// Floating-point types convert into each other; another conversion would mean another thing or lose digits.
bool types_fit(at::ScalarType from, at::ScalarType to) {
  return from == to || (at::isFloatingType(from) && at::isFloatingType(to));
}

// What is wrong with the pair, or an empty text.
std::string misfit(const std::string& name, const at::Tensor& from, const at::Tensor& to) {
  if (!has_values(from)) return name + ": no dense tensor with values";
  const bool types = types_fit(from.scalar_type(), to.scalar_type());
  if (types && from.sizes() == to.sizes()) return "";
  const auto text = [&](const at::Tensor& tensor) {
    return (types ? "" : type_name(tensor.scalar_type()) + " ") + shape_text(tensor.sizes());
  };
  return name + ": " + text(from) + " in the file, " + text(to) + " in the model";
}

void add_part(std::string& out, std::string_view title, const std::vector<std::string>& names,
              std::string_view separator) {
  if (names.empty()) return;
  const std::vector<std::string_view> views(names.begin(), names.end());
  if (!out.empty()) out += "; ";
  out += std::string(title) + " (" + std::to_string(names.size()) + "): " + join(views, separator);
}

LoadReport compare(const NamedTensors& state, const NamedTensors& tensors) {
  LoadReport report;
  for (const auto& [name, to] : state) {
    const auto from = tensors.find(name);
    if (from == tensors.end()) {
      report.missing.push_back(name);
    } else if (auto text = misfit(name, from->second, to); !text.empty()) {
      report.misfits.push_back(std::move(text));
    } else {
      report.loaded.push_back(name);
    }
  }
  for (const auto& entry : tensors) {
    if (!state.contains(entry.first)) report.unexpected.push_back(entry.first);
  }
  return report;
}

}  // namespace

NamedTensors state_of(const torch::nn::Module& module) {
  NamedTensors state;
  for (const auto& item : module.named_parameters()) state.emplace(item.key(), item.value());
  for (const auto& item : module.named_buffers()) state.emplace(item.key(), item.value());
  return state;
}

NamedTensors read_weights(const std::filesystem::path& path) {
  const safetensors::File file(path);
  NamedTensors tensors;
  for (const auto& [name, entry] : file.header().entries) {
    auto tensor = at::empty(entry.shape, scalar_type_of(entry.dtype));
    file.read(name, {static_cast<std::byte*>(tensor.mutable_data_ptr()), tensor.nbytes()});
    tensors.emplace(name, std::move(tensor));
  }
  return tensors;
}

std::map<std::string, std::string> read_metadata(const std::filesystem::path& path) {
  return safetensors::File(path).header().metadata;
}

void write_weights(const std::filesystem::path& path, const NamedTensors& tensors,
                   const std::map<std::string, std::string>& metadata) {
  std::vector<at::Tensor> kept;  // what the views below point into
  safetensors::TensorViews views;
  for (const auto& [name, tensor] : tensors) {
    const auto& row_major = kept.emplace_back(plain(name, tensor));
    views[name] = {*dtype_of(row_major.scalar_type()),
                   row_major.sizes().vec(),
                   {static_cast<const std::byte*>(row_major.const_data_ptr()), row_major.nbytes()}};
  }
  safetensors::write(path, views, metadata);
}

std::string LoadReport::to_string() const {
  std::string out;
  add_part(out, "missing in the file", missing, ", ");
  add_part(out, "not in the model", unexpected, ", ");
  add_part(out, "of another shape or type", misfits, ", ");
  return out;
}

LoadReport load_state(torch::nn::Module& module, const NamedTensors& tensors, LoadMode mode) {
  const NamedTensors state = state_of(module);
  LoadReport report = compare(state, tensors);
  const std::string problems = report.to_string();
  if (mode == LoadMode::kStrict && !problems.empty()) {
    throw Error("load_state", "the tensors must be those of the model but are not, so nothing was loaded: " + problems +
                                  "; build the model with the options that the file was written with, or load what "
                                  "fits (LoadMode::kPartial)");
  }
  const at::NoGradGuard no_grad;
  for (const auto& name : report.loaded) state.at(name).copy_(tensors.at(name));
  return report;
}

}  // namespace frn
