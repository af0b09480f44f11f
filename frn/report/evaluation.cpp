#include "frn/report/evaluation.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "frn/core/value.h"
#include "frn/core/whole_file.h"

namespace frn::report {
namespace {

constexpr size_t kMostExamples = 16;
constexpr size_t kMostBytes = size_t{64} << 20U;  // of examples in a page

double number_in(const Value& table, std::string_view key) {
  const auto* const found = table.find(key);
  const auto number = found == nullptr ? std::nullopt : found->number();
  return number.value_or(std::numeric_limits<double>::quiet_NaN());
}

std::string text_in(const Value& table, std::string_view key) {
  const auto* const found = table.find(key);
  return found == nullptr || found->text() == nullptr ? "" : *found->text();
}

// The elements of a list in the table; none where there is none.
const Value::List& list_in(const Value& table, std::string_view key) {
  static const Value::List none;
  const auto* const found = table.find(key);
  return found == nullptr || found->list() == nullptr ? none : *found->list();
}

std::vector<ClassScore> classes_in(const Value& table) {
  std::vector<ClassScore> out;
  for (const auto& one : list_in(table, "classes")) {
    const double objects = number_in(one, "objects");
    out.push_back({.name = text_in(one, "name"),
                   .objects = objects >= 0 && objects < 1e15 ? static_cast<int64_t>(objects) : 0,
                   .ap = number_in(one, "AP"),
                   .ap50 = number_in(one, "AP50"),
                   .ap75 = number_in(one, "AP75"),
                   .ar = number_in(one, "AR")});
  }
  return out;
}

std::vector<Curve> curves_in(const Value& table) {
  std::vector<Curve> out;
  for (const auto& one : list_in(table, "precision_recall")) {
    const auto& precision = list_in(one, "precision");
    if (precision.size() < 2) continue;
    Curve curve{.title = fmt::format("IoU {:.2f}", number_in(one, "iou")), .x = {}, .y = {}};
    for (size_t i = 0; i < precision.size(); ++i) {
      curve.x.push_back(100 * static_cast<double>(i) / static_cast<double>(precision.size() - 1));
      curve.y.push_back(100 * precision[i].number().value_or(std::numeric_limits<double>::quiet_NaN()));
    }
    out.push_back(std::move(curve));
  }
  return out;
}

// The pictures that the evaluation names; earlier versions name none, then all that are there.
std::vector<std::filesystem::path> examples_in(const Value& table, const std::filesystem::path& folder) {
  const auto* const named = table.find("examples");
  const auto is_wanted = [&](const std::filesystem::path& path) {
    if (path.extension() != ".png") return false;
    if (named == nullptr || named->list() == nullptr) return true;
    const Value name(path.filename().string());
    return std::find(named->list()->begin(), named->list()->end(), name) != named->list()->end();
  };
  std::vector<std::filesystem::path> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "examples", error)) {
    // Where a link leads may be nothing for a page that is given to others.
    const bool is_own = !entry.is_symlink(error) && entry.is_regular_file(error);
    if (is_own && is_wanted(entry.path())) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  std::vector<std::filesystem::path> out;
  size_t bytes = 0;
  for (const auto& path : found) {
    bytes += std::filesystem::file_size(path, error);
    if (error || out.size() == kMostExamples || bytes > kMostBytes) break;
    out.push_back(path);
  }
  return out;
}

}  // namespace

EvaluationFiles read_evaluation(const std::filesystem::path& folder) {
  EvaluationFiles out;
  const auto text = contents_of(folder / "eval.json");
  if (text.empty()) return out;
  try {
    const auto table = parse_json(text);
    out.classes = classes_in(table);
    if (out.classes.empty()) return out;
    out.curves = curves_in(table);
    out.examples = examples_in(table, folder);
    out.source = fmt::format("{:.0f} {} images of {}, weights of step {:.0f}", number_in(table, "samples"),
                             text_in(table, "split"), text_in(table, "data"), number_in(table, "step"));
  } catch (const ValueError&) {
    return {};  // a file that somebody else wrote
  }
  return out;
}

}  // namespace frn::report
