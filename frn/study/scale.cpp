// A study as it is at one of its scales.
#include <algorithm>

#include "frn/study/definition.h"

namespace frn::study {
namespace {

using Texts = std::vector<std::string>;

bool holds(const Texts& texts, const std::string& text) {
  return std::find(texts.begin(), texts.end(), text) != texts.end();
}

void keep_values(Definition& study, const std::vector<size_t>& kept) {
  for (auto& [metric, rows] : study.published) {
    for (auto& [row, values] : rows) {
      std::vector<PublishedValue> left;
      for (const size_t column : kept) left.push_back(values[column]);
      values = std::move(left);
    }
  }
}

// What is left of a claim without the cells that `goes` tells; false: nothing that could be compared.
template <typename Goes>
bool keep_cells(Claim& claim, const Goes& goes) {
  const bool compares = !claim.higher.empty() || !claim.better.empty();
  for (auto* cells : {&claim.higher, &claim.lower, &claim.better, &claim.worse, &claim.close, &claim.diverges}) {
    std::erase_if(*cells, goes);
  }
  if (compares) return !(claim.higher.empty() && claim.better.empty()) && !(claim.lower.empty() && claim.worse.empty());
  return !claim.close.empty() || !claim.diverges.empty();
}

bool keep_columns(Claim& claim, const Texts& columns) {
  const bool had_columns = !claim.columns.empty();
  std::erase_if(claim.columns, [&](const auto& column) { return !holds(columns, column); });
  if (had_columns && claim.columns.empty()) return false;
  return keep_cells(claim, [&](const auto& cell) {
    const auto column = split_cell_name(cell).column;
    return !column.empty() && !holds(columns, column);
  });
}

void keep_rows(Definition& study, const Texts& names) {
  std::erase_if(study.rows, [&](const auto& row) { return !holds(names, row.name); });
  if (!holds(names, study.reference)) study.reference.clear();
  for (auto& [metric, rows] : study.published) {
    std::erase_if(rows, [&](const auto& row) { return !holds(names, row.first); });
  }
  std::erase_if(study.claims, [&](auto& claim) {
    return !keep_cells(claim, [&](const auto& cell) { return !holds(names, split_cell_name(cell).row); });
  });
  for (auto& figure : study.figures) {
    std::erase_if(figure.rows, [&](const auto& row) { return !holds(names, row); });
  }
}

void keep_columns(Definition& study, const Texts& names) {
  std::vector<Line> columns;
  std::vector<size_t> kept;
  for (size_t c = 0; c < study.columns.size(); ++c) {
    if (!holds(names, study.columns[c].name)) continue;
    kept.push_back(c);
    columns.push_back(study.columns[c]);
  }
  keep_values(study, kept);
  study.columns = std::move(columns);
  std::erase_if(study.claims, [&](auto& claim) { return !keep_columns(claim, names); });
  for (auto& figure : study.figures) {
    std::erase_if(figure.inset, [&](const auto& column) { return !holds(names, column); });
  }
}

}  // namespace

Definition at_scale(Definition study, const std::string& name) {
  const Scale scale = study.scale(name);
  if (!scale.only_rows.empty()) keep_rows(study, scale.only_rows);
  if (!scale.only_columns.empty()) keep_columns(study, scale.only_columns);
  for (auto& column : study.columns) {
    if (const auto other = scale.titles.find(column.name); other != scale.titles.end()) {
      column.title += " / " + other->second;
    }
    if (const auto other = scale.words.find(column.name); other != scale.words.end()) column.words = other->second;
  }
  return study;
}

}  // namespace frn::study
