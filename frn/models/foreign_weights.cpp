#include "frn/models/foreign_weights.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <map>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/nn/norm_act.h"

namespace frn {
namespace {

constexpr std::array kForeign{
    ForeignModel{"torchvision", "resnet18", "resnetv1-18", "bn+relu"},
    ForeignModel{"torchvision", "resnet34", "resnetv1-34", "bn+relu"},
    ForeignModel{"torchvision", "resnet50", "resnetv1-50", "bn+relu"},
    ForeignModel{"torchvision", "resnet101", "resnetv1-101", "bn+relu"},
    ForeignModel{"torchvision", "inception_v3", "inceptionv3", "bn(eps=0.001)+relu"},
    ForeignModel{"torchvision", "vgg11_bn", "vgg11", "bn+relu"},
    ForeignModel{"torchvision", "retinanet_resnet50_fpn", "retinanet-r50", "bn+relu"},
    ForeignModel{"timm", "resnetv2_18", "resnetv2-18", "bn+relu"},
    ForeignModel{"timm", "resnetv2_34", "resnetv2-34", "bn+relu"},
    ForeignModel{"timm", "resnetv2_50", "resnetv2-50", "bn+relu"},
    ForeignModel{"timm", "resnetv2_101", "resnetv2-101", "bn+relu"},
    ForeignModel{"timm", "resnetv2_152", "resnetv2-152", "bn+relu"},
    ForeignModel{"timm", "resnetv2_50x1_bit", "resnetv2-50-bit", "gn(groups=32)+relu", "plain(eps=1e-08)"},
};

void replace(std::string& text, std::string_view from, std::string_view to) {
  const auto at = text.find(from);
  if (at != std::string::npos) text = text.substr(0, at).append(to).append(text, at + from.size());
}

// torchvision's ResNets: bn1 for norm1, downsample.0 and .1 for its convolution and norm.
std::string resnet_path(std::string path) {
  replace(path, "downsample.conv", "downsample.0");
  replace(path, "downsample.norm", "downsample.1");
  const auto last = path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1;
  if (path.compare(last, 4, "norm") == 0) path = path.substr(0, last).append("bn").append(path, last + 4);
  return path;
}

std::string inception_path(std::string path) {
  replace(path, ".norm", ".bn");
  return path;
}

// torchvision numbers convolutions, norms, activations and poolings in one row, and linear layers, activations and
// dropouts in another.
std::string vgg_path(const std::string& path) {
  constexpr std::array<int, 8> kConvolutions{0, 4, 8, 11, 15, 18, 22, 25};
  const auto first_dot = path.find('.');
  if (first_dot == std::string::npos) return path;
  const auto digit = static_cast<size_t>(path[first_dot + 1] - '0');
  if (path.rfind("features.", 0) == 0 && digit < kConvolutions.size()) {
    return "features." + std::to_string(kConvolutions[digit] + (path.ends_with(".norm") ? 1 : 0));
  }
  if (path.rfind("classifier.", 0) == 0 && path.ends_with(".fc")) return "classifier." + std::to_string(3 * digit);
  return path;
}

std::string their_path(const ForeignModel& foreign, const std::string& path) {
  if (foreign.library == "timm") return path;
  if (foreign.model == "inceptionv3") return inception_path(path);
  if (foreign.model == "vgg11") return vgg_path(path);
  return resnet_path(path);
}

std::pair<std::string, std::string> split(const std::string& name) {
  const auto dot = name.rfind('.');
  return dot == std::string::npos ? std::pair(std::string(), name)
                                  : std::pair(name.substr(0, dot), name.substr(dot + 1));
}

// timm's last layer is a 1x1 convolution.
constexpr std::string_view kTimmHead = "head.fc.weight";

at::Tensor reshaped(const ForeignModel& foreign, const std::string& name, const at::Tensor& tensor, bool to_ours) {
  if (foreign.library != "timm" || name != kTimmHead) return tensor;
  const bool drops = tensor.dim() == 4 && tensor.size(2) == 1 && tensor.size(3) == 1;
  if (to_ours && drops) return tensor.flatten(1);
  if (!to_ours && tensor.dim() == 2) return tensor.reshape({tensor.size(0), tensor.size(1), 1, 1});
  return tensor;
}

// Layers that hold weights, of any norm, by their path; and what each must have: weight, and bias where it has one.
std::map<std::string, std::vector<std::string>> layers_of(std::string_view model, bool auxiliary) {
  ModelOptions options{.norm = NormActSpec::parse("bn+relu"), .classes = 1};
  options.auxiliary = auxiliary;
  options.detector.style = detection::Style::kTorchvision;
  std::map<std::string, std::vector<std::string>> layers;
  for (const auto& layer : make_uninitialised_model(model, options)->named_modules()) {
    std::vector<std::string> needed;
    for (const auto& parameter : layer.value()->named_parameters(/*recurse=*/false)) needed.push_back(parameter.key());
    const bool is_norm = dynamic_cast<const NormActImpl*>(layer.value().get()) != nullptr;
    if (is_norm || !needed.empty()) layers[layer.key()] = needed;
  }
  return layers;
}

bool has_auxiliary(const NamedTensors& tensors) {
  const auto at = tensors.lower_bound("AuxLogits.");
  return at != tensors.end() && at->first.rfind("AuxLogits.", 0) == 0;
}

NamedTensors rename(const ForeignModel& foreign, const NamedTensors& tensors, bool to_ours, LoadMode mode,
                    NameReport& report) {
  const auto layers = layers_of(foreign.model, has_auxiliary(tensors));
  std::map<std::string, std::string> paths;  // from the names that come to those that go
  for (const auto& [path, needed] : layers) {
    const auto theirs = their_path(foreign, path);
    paths[to_ours ? theirs : path] = to_ours ? path : theirs;
    for (const auto& parameter : needed) {
      const auto name = (to_ours ? theirs : path) + "." + parameter;
      if (tensors.count(name) == 0) report.missing.push_back(name);
    }
  }
  NamedTensors out;
  for (const auto& [name, tensor] : tensors) {
    const auto [path, parameter] = split(name);
    const auto found = paths.find(path);
    if (found == paths.end()) {
      report.unexpected.push_back(name);
      continue;
    }
    out[found->second + "." + parameter] = reshaped(foreign, name, tensor, to_ours);
  }
  const auto text = report.to_string();
  if (mode == LoadMode::kStrict && !text.empty()) {
    throw Error("convert", "the file's tensors must be those of " +
                               (to_ours ? std::string(foreign.library) + ":" + std::string(foreign.name)
                                        : std::string(foreign.model)) +
                               " but " + text + "; --partial converts the rest");
  }
  return out;
}

std::string listed(const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  return join(views);
}

}  // namespace

std::span<const ForeignModel> foreign_models() { return kForeign; }

const ForeignModel& find_foreign_model(std::string_view text) {
  std::vector<std::string> names;
  for (const auto& row : kForeign) {
    names.push_back(std::string(row.library) + ":" + std::string(row.name));
    if (names.back() == text) return row;
  }
  const std::vector<std::string_view> views(names.begin(), names.end());
  throw Error("convert", "the other side must be one of " + join(views) + " but is '" + std::string(text) + "'" +
                             suggestion(text, views));
}

std::string NameReport::to_string() const {
  std::string text;
  if (!missing.empty()) text += std::to_string(missing.size()) + " are missing: " + listed(missing);
  if (!unexpected.empty()) {
    text += (text.empty() ? "" : "; ") + std::to_string(unexpected.size()) + " are unknown: " + listed(unexpected);
  }
  return text;
}

NamedTensors from_foreign(const ForeignModel& foreign, const NamedTensors& theirs, LoadMode mode, NameReport& report) {
  return rename(foreign, theirs, /*to_ours=*/true, mode, report);
}

NamedTensors to_foreign(const ForeignModel& foreign, const NamedTensors& ours, LoadMode mode, NameReport& report) {
  return rename(foreign, ours, /*to_ours=*/false, mode, report);
}

NamedTensors with_fresh_norms(std::string_view name, const NormActSpec& norm, const NamedTensors& tensors) {
  if (find_model(name).detects) {
    throw Error("convert", "norms start afresh in classifiers, but " + std::string(name) +
                               " finds boxes; convert the classifier that is its backbone and give that to frn train "
                               "--backbone");
  }
  // The first convolution tells the input channels, the last linear layer the classes.
  std::string first;
  std::string last;
  const auto probe = make_uninitialised_model(name, {.norm = NormActSpec::parse("none+relu")});
  for (const auto& parameter : probe->named_parameters()) {
    if (parameter->dim() == 4 && first.empty()) first = parameter.key();
    if (parameter->dim() == 2) last = parameter.key();
  }
  for (const auto& one : {first, last}) {
    if (tensors.count(one) == 0) {
      throw Error("convert", "the file must hold " + std::string(name) + "'s weights under our names but has no " +
                                 one + "; --from names the library that they come from");
    }
  }
  ModelOptions options{.norm = norm};
  options.classes = tensors.at(last).size(0);
  options.input_channels = tensors.at(first).dim() == 4 ? tensors.at(first).size(1) : 0;
  options.auxiliary = has_auxiliary(tensors);
  const auto model = make_uninitialised_model(name, options);
  auto state = state_of(*model);
  std::vector<std::string> misfits;
  for (const auto& layer : model->named_modules()) {
    if (dynamic_cast<const NormActImpl*>(layer.value().get()) != nullptr) continue;
    for (const auto& parameter : layer.value()->named_parameters(/*recurse=*/false)) {
      const auto key = layer.key() + "." + parameter.key();
      const auto found = tensors.find(key);
      if (found == tensors.end()) {
        misfits.push_back(fmt::format("{} is missing", key));
      } else if (found->second.sizes() != parameter->sizes()) {
        misfits.push_back(fmt::format("{} has shape {} for {}", key, shape_text(found->second.sizes()),
                                      shape_text(parameter->sizes())));
      } else {
        state[key] = found->second;
      }
    }
  }
  if (!misfits.empty()) {
    throw Error("convert", "the convolutions and linear layers must be those of " + std::string(name) + " with " +
                               norm.to_string() + " but " + listed(misfits));
  }
  return state;
}

}  // namespace frn
