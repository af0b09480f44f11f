// frn study figure-epsilon: the paper's figure of the effect of epsilon on maps of one value (section 3.3).
#include <ATen/ATen.h>
#include <fmt/format.h>

#include <filesystem>

#include "frn/cli/commands.h"
#include "frn/core/error.h"
#include "frn/ops/ops.h"
#include "frn/report/gnuplot.h"

namespace frn::cli {
namespace {

struct Options {
  std::string name;
  std::string out;
  bool list = false;
};

constexpr const char* kFigureEpsilon = "figure-epsilon";

// xhat = x/sqrt(x^2 + eps) from the operator itself: a map of one value per sample.
report::LineChart effect_of_epsilon() {
  report::LineChart chart{"Effect of epsilon on FRN at N = 1", "x", "normalised x", {}};
  const auto x = at::linspace(-1, 1, 401, at::kDouble);
  const std::vector<double> xs(x.const_data_ptr<double>(), x.const_data_ptr<double>() + x.numel());
  for (const double eps : {1e-6, 1e-4, 1e-2, 1e-1, 1.0}) {
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

void run(const Options& options) {
  if (options.list) {
    fmt::print("{}  the effect of epsilon on maps of one value (section 3.3)\n", kFigureEpsilon);
    return;
  }
  if (options.name.empty()) throw Error("study", std::string("name a study: ") + kFigureEpsilon + ", or give --list");
  const std::filesystem::path folder = options.out.empty() ? "studies-out/" + options.name : options.out;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw Error("study", "cannot make the folder " + folder.string() + ": " + error.message());
  const auto chart = effect_of_epsilon();
  report::write_file(folder / "figure-epsilon.csv", as_csv(chart));
  report::draw_svg(chart, folder / "figure-epsilon.svg");
  fmt::print("wrote {} and {}\n", (folder / "figure-epsilon.svg").string(), (folder / "figure-epsilon.csv").string());
}

}  // namespace

void add_study(CLI::App& program) {
  auto options = std::make_shared<Options>();
  auto* study = program.add_subcommand("study", "Make a table or figure of the paper");
  study->add_option("name", options->name, "Which one (see --list)")->check(CLI::IsMember({kFigureEpsilon}));
  study->add_option("--out", options->out, "Folder for the results (default: studies-out/NAME)");
  study->add_flag("--list", options->list, "List the studies");
  study->callback([options] { run(*options); });
}

}  // namespace frn::cli
