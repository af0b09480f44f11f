// study/ holds what a study is: its definition, its folder, the results in it and what they say of its claims. It reads
// and writes files, trains nothing and needs no torch.
//
// A study: the cells of one table or figure of the paper, what the paper says of each, and how to train them at three
// scales. Read from TOML; docs/studies.md tells the keys.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frn/core/metric.h"

namespace frn::study {

// Settings of frn train by key, each as TOML writes its value: {"norm", "'bn+relu'"}.
using Settings = std::map<std::string, std::string>;

// Of a cell. A file that asks for more is damaged or malicious.
inline constexpr int64_t kMostSeeds = 1000;

struct NamedMetric {
  std::string key;  // in metrics.json under "validation" (or "train", as "train.KEY")
  std::string title;
  // What the study says of it; else metrics.json does.
  std::optional<MetricKind> kind = std::nullopt;
  std::optional<bool> higher_is_better = std::nullopt;
};
// "precision_at_1" of "train.precision_at_1", which is its key in logs.
std::string_view key_in_log(std::string_view key);
bool is_of_training(std::string_view key);

// A row or a column of the table. A cell is where they meet.
struct Line {
  std::string name;  // for folders and options
  std::string title;
  std::string words;  // what sentences call it: "BN" for a row, "at 32 images" for a column
  Settings settings;
};

struct Scale {
  std::string name;
  std::string about;
  std::string needs_data;  // what --data must give when the settings name no data: "imagefolder:DIR"
  std::string random;      // what `--data random` means: "random:299x3x1000"
  double chance = 0;       // the study's first metric by guessing, in per cent: cells near it have not learned; 0: off
  int64_t seeds = 1;       // how often each cell is trained, unless the command line says
  int64_t first_seed = 0;  // the setting `seed` of the first of them
  Settings settings;
  std::map<std::string, Settings> rows, columns, cells;  // on top, by name
  std::vector<std::string> only_rows, only_columns;      // those that are trained; empty: all
  std::map<std::string, std::string> titles, words;      // of columns whose cells are others than the paper's
};

struct PublishedValue {
  double number = 0;  // as tables show it: shares in per cent
  bool diverged = false;
};

// Sides are cells, "row@column", or rows, "row", which stand for the row's cells in all columns (or those of
// `columns`).
struct Claim {
  std::string text;
  std::string place;
  std::string metric;
  std::vector<std::string> columns;
  // One of these is given. Every cell of `higher` is above those of `lower` in its column (or that are named) by more
  // than `by`; so with `better` and `worse`, whichever way is better in the metric; the cells of `close` lie within
  // `within` of each other (of one row all of them, of more rows those of a column); those of `diverges` diverge.
  // Differences are as tables show them: of shares in points.
  std::vector<std::string> higher, lower, better, worse, close, diverges;
  double by = 0;
  double within = 0;
};

struct Figure {
  std::string file;
  std::string kind;  // columns: a metric over the columns, a curve per row; curves: over the steps of training
  std::string metric;
  std::string caption;
  std::string x_label;
  std::vector<std::string> rows;   // empty: all
  std::vector<std::string> inset;  // columns that an inset shows enlarged; empty: none
};

struct Definition {
  std::string name, title, place, about;
  std::string column_title;  // what the columns are: "images per device"; may be empty
  std::string reference;     // the row that others are compared with; may be empty
  std::vector<NamedMetric> metrics;
  std::vector<Line> rows, columns;
  std::map<std::string, std::map<std::string, std::vector<PublishedValue>>> published;  // metric, row, by column
  std::vector<Scale> scales;
  std::vector<Claim> claims;
  std::vector<Figure> figures;

  // None when the paper does not say.
  const PublishedValue* published_at(const std::string& metric, size_t row, size_t column) const;
  // Throws frn::Error with the known ones.
  const Scale& scale(const std::string& name) const;
};

// `source` is what errors call the text. Throws frn::Error "[study] source: ..." for what is no TOML, an unknown key, a
// name that no row, column or metric has, or a list of another length than the columns.
Definition parse_study(const std::string& text, const std::string& name, const std::string& source);

// The study as it is at a scale: without the columns that the scale leaves out and the claims about them, and with the
// scale's titles. Throws frn::Error for an unknown scale.
Definition at_scale(Definition study, const std::string& scale);

// "row@column" or "row" as its parts.
struct CellName {
  std::string row;
  std::string column;  // may be empty
};
CellName split_cell_name(std::string_view text);

}  // namespace frn::study
