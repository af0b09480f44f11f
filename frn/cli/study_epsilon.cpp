#include "frn/cli/study_epsilon.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <ATen/ops/linspace.h>
#include <fmt/format.h>

#include "frn/core/error.h"
#include "frn/core/value.h"
#include "frn/ops/ops.h"
#include "frn/report/gnuplot.h"

namespace frn::cli {
namespace {

std::vector<double> epsilons_of(const study::Text& study) {
  std::vector<double> out;
  const auto table = parse_toml(study.text);
  if (const auto* list = table["epsilons"].list()) {
    for (const auto& value : *list) out.push_back(value.number().value_or(0.0));
  }
  if (out.empty()) throw Error("study", study.source + ": epsilons must be a list of numbers");
  return out;
}

// xhat = x/sqrt(x^2 + eps) from the operator itself: a map of one value per sample.
report::LineChart effect_of_epsilon(const std::vector<double>& epsilons) {
  report::LineChart chart{"Effect of epsilon on FRN at N = 1", "x", "normalised x", {}};
  const auto x = at::linspace(-1, 1, 401, at::kDouble);
  const std::vector<double> xs(x.const_data_ptr<double>(), x.const_data_ptr<double>() + x.numel());
  for (const double eps : epsilons) {
    const auto y = norm_act(x.view({-1, 1}), std::nullopt, std::nullopt, at::full({}, eps, at::kDouble), std::nullopt,
                            std::nullopt, /*groups=*/1, /*centered=*/false, "none")
                       .contiguous();
    const double* const values = y.const_data_ptr<double>();
    chart.curves.push_back({fmt::format("eps = {:g}", eps), xs, {values, values + y.numel()}});
  }
  return chart;
}

std::string as_csv(const report::LineChart& chart) {
  std::string out = "x";
  for (const auto& curve : chart.curves) out += "," + curve.title;
  out += "\n";
  for (size_t i = 0; i < chart.curves[0].x.size(); ++i) {
    out += fmt::format("{:.9g}", chart.curves[0].x[i]);
    for (const auto& curve : chart.curves) out += fmt::format(",{:.9g}", curve.y[i]);
    out += "\n";
  }
  return out;
}

}  // namespace

std::vector<std::filesystem::path> epsilon_files(const std::filesystem::path& folder) {
  return {folder / "figure-epsilon.svg", folder / "figure-epsilon.csv"};
}

void draw_epsilon(const study::Text& study, const std::filesystem::path& folder) {
  const auto chart = effect_of_epsilon(epsilons_of(study));
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error("study", "cannot make the folder " + folder.string() + ": " + error.message());
  const auto files = epsilon_files(folder);
  report::draw_svg(chart, files[0]);
  report::write_file(files[1], as_csv(chart));
}

}  // namespace frn::cli
