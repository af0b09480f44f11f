#include "frn/ops/readers.h"

#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>

#include <array>

namespace frn::ops {
namespace {

// Not transposed, so without.
std::vector<int64_t> output_padding(const Geometry& geometry) {
  return std::vector<int64_t>(geometry.stride.size(), 0);
}

// Under autocast filters may be narrower than z, which ATen's convolution then narrows too.
at::Tensor as_type_of(const at::Tensor& tensor, const at::Tensor& other) {
  return tensor.scalar_type() == other.scalar_type() ? tensor : tensor.to(other.scalar_type());
}

}  // namespace

FlatReaders flat(const std::vector<Convolution>& readers) {
  FlatReaders out;
  for (const auto& one : readers) {
    out.tensors.push_back(one.filters);
    if (one.bias) out.tensors.push_back(*one.bias);
    out.geometries.push_back({one.stride, one.padding, one.dilation, one.groups, one.bias.has_value()});
  }
  return out;
}

std::vector<at::Tensor> convolve(const at::Tensor& z, at::TensorList tensors, const std::vector<Geometry>& geometries) {
  std::vector<at::Tensor> out;
  size_t next = 0;
  for (const auto& geometry : geometries) {
    const auto& filters = tensors[next++];
    const auto bias = geometry.bias ? std::optional(tensors[next++]) : std::nullopt;
    out.push_back(at::convolution(as_type_of(z, filters), filters, bias, geometry.stride, geometry.padding,
                                  geometry.dilation, /*transposed=*/false, output_padding(geometry), geometry.groups));
  }
  return out;
}

bool filters_need(const std::vector<Geometry>& geometries, const std::vector<bool>& needs) {
  size_t next = 0;
  for (const auto& geometry : geometries) {
    if (needs[next]) return true;
    next += geometry.bias ? 2 : 1;
  }
  return false;
}

ReaderGradients convolve_backward(std::vector<at::Tensor>& douts, const at::Tensor& z, at::TensorList tensors,
                                  const std::vector<Geometry>& geometries, bool needs_dz,
                                  const std::vector<bool>& needs) {
  ReaderGradients out{{}, std::vector<at::Tensor>(tensors.size())};
  size_t next = 0;
  for (size_t i = 0; i < geometries.size(); ++i) {
    const auto& geometry = geometries[i];
    const size_t filters = next++;
    const size_t bias = geometry.bias ? next++ : filters;
    if (!douts[i].defined()) continue;
    const std::array<bool, 3> mask{needs_dz, needs[filters], geometry.bias && needs[bias]};
    const std::vector<int64_t> bias_sizes{tensors[filters].size(0)};
    const auto [dz, dfilters, dbias] = at::convolution_backward(
        douts[i], as_type_of(z, tensors[filters]), tensors[filters],
        geometry.bias ? at::OptionalIntArrayRef(bias_sizes) : std::nullopt, geometry.stride, geometry.padding,
        geometry.dilation, /*transposed=*/false, output_padding(geometry), geometry.groups, mask);
    if (mask[0]) out.dz = out.dz.defined() ? out.dz + as_type_of(dz, z) : as_type_of(dz, z);
    if (mask[1]) out.tensors[filters] = dfilters;
    if (mask[2]) out.tensors[bias] = dbias;
    douts[i].reset();
  }
  return out;
}

}  // namespace frn::ops
