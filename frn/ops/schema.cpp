// The operators' schemas: the public ones, the pairs that autograd is made of, and what other languages ask of the
// library.
#include <torch/library.h>

#include "frn/core/error.h"
#include "frn/ops/matrix_tiles.h"
#include "frn/ops/ops.h"
#include "frn/spec/spec_json.h"
#include "frn/version.h"

namespace {

// An error of ours as the ValueError that Python knows.
template <typename Call>
auto as_value_error(const Call& call) {
  try {
    return call();
  } catch (const frn::Error& error) {
    TORCH_CHECK_VALUE(false, error.what());
  }
}

}  // namespace

TORCH_LIBRARY(frn, m) {
  // Here, because it runs when the library is loaded: before the products of the network that the layers are for.
  frn::ops::avoid_undescribed_tiles();

  m.def(
      "norm_act(Tensor x, Tensor? weight, Tensor? bias, Tensor eps, Tensor? tau, Tensor? kappa, int groups, "
      "bool centered, str activation) -> Tensor");
  // norm_act and the convolution that reads its result, which is not kept but computed again for the gradient.
  m.def(
      "norm_act_conv(Tensor x, Tensor? weight, Tensor? bias, Tensor eps, Tensor? tau, Tensor? kappa, int groups, "
      "bool centered, str activation, Tensor filters, Tensor? conv_bias, int[] stride, int[] padding, int[] dilation, "
      "int conv_groups) -> Tensor");
  // act(norm_act(x) + shortcut), of a norm_act without an activation: the end of a residual block, in one pass.
  m.def(
      "norm_add_act(Tensor x, Tensor shortcut, Tensor? weight, Tensor? bias, Tensor eps, Tensor? tau, Tensor? kappa, "
      "int groups, bool centered, str activation) -> Tensor");
  m.def("frn_tlu(Tensor x, Tensor weight, Tensor bias, Tensor tau, Tensor eps) -> Tensor");
  m.def("act(Tensor y, Tensor? tau, Tensor? kappa, str activation) -> Tensor");

  // mean and rstd are [N, groups] in the accumulation type; mean is empty unless centered.
  m.def(
      "_norm_act_forward(Tensor x, Tensor? weight, Tensor? bias, Tensor eps, Tensor? tau, Tensor? kappa, int groups, "
      "bool centered, str activation) -> (Tensor z, Tensor mean, Tensor rstd)");
  // needs: x, weight, bias, eps, tau, kappa. A gradient that is not needed comes out with no elements.
  m.def(
      "_norm_act_backward(Tensor dz, Tensor x, Tensor mean, Tensor rstd, Tensor? weight, Tensor? bias, Tensor eps, "
      "Tensor? tau, Tensor? kappa, int groups, bool centered, str activation, bool[6] needs) -> (Tensor dx, "
      "Tensor dweight, Tensor dbias, Tensor deps, Tensor dtau, Tensor dkappa)");
  m.def(
      "_norm_add_act_forward(Tensor x, Tensor shortcut, Tensor? weight, Tensor? bias, Tensor eps, Tensor? tau, "
      "Tensor? kappa, int groups, bool centered, str activation) -> (Tensor z, Tensor mean, Tensor rstd)");
  // needs: x, shortcut, weight, bias, eps, tau, kappa.
  m.def(
      "_norm_add_act_backward(Tensor dz, Tensor x, Tensor shortcut, Tensor mean, Tensor rstd, Tensor? weight, "
      "Tensor? bias, Tensor eps, Tensor? tau, Tensor? kappa, int groups, bool centered, str activation, "
      "bool[7] needs) -> (Tensor dx, Tensor dshortcut, Tensor dweight, Tensor dbias, Tensor deps, Tensor dtau, "
      "Tensor dkappa)");
  m.def("_act_forward(Tensor y, Tensor? tau, Tensor? kappa, str activation) -> Tensor");
  m.def(
      "_act_backward(Tensor dz, Tensor y, Tensor? tau, Tensor? kappa, str activation, bool[3] needs) -> (Tensor dy, "
      "Tensor dtau, Tensor dkappa)");

  // weight', bias' and tau' of a layer that also normalises its activations; a missing tau or kappa is 0.
  m.def("proxy(Tensor weight, Tensor bias, Tensor? tau, Tensor? kappa) -> (Tensor, Tensor, Tensor)");
  m.def("_proxy_forward(Tensor weight, Tensor bias, Tensor? tau, Tensor? kappa) -> (Tensor, Tensor, Tensor)");
  m.def(
      "_proxy_backward(Tensor dweight, Tensor dbias, Tensor dtau, Tensor weight, Tensor bias, Tensor? tau, "
      "Tensor? kappa) -> (Tensor, Tensor, Tensor, Tensor)");

  // The filters of a convolution that standardises its weights [filters, inputs, *].
  m.def("standardise(Tensor weight, Tensor? gain, bool scaled, float eps) -> Tensor");

  m.def("version() -> str", [] { return std::string(FRN_VERSION); });
  m.def("implementations() -> str[]", [] {
    c10::List<std::string> names;
    for (const auto& implementation : frn::implementations()) {
      if (implementation.why_not.empty()) names.push_back(implementation.name);
    }
    return names;
  });
  m.def("force_implementation(str name) -> ()", [](const std::string& name) { frn::force_implementation(name); });
  m.def("last_implementation() -> str", [] { return frn::last_implementation(); });

  // What layers there are, for other languages (frn/spec/spec_json.h says in which form). A wrong name is a ValueError.
  m.def("norm_table() -> str", [] { return frn::to_json(frn::norm_table_value()); });
  m.def("parse_spec(str text) -> str", [](const std::string& text) {
    return as_value_error([&] { return frn::spec_json(frn::NormActSpec::parse(text)); });
  });
  // The groups of a per-sample layer of so many channels.
  m.def("spec_groups(str text, int channels) -> int", [](const std::string& text, int64_t channels) {
    return as_value_error([&] { return frn::NormActSpec::parse(text).groups(channels); });
  });
}
