#include "frn/study/definition.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <functional>

#include "frn/core/error.h"
#include "frn/core/text.h"
#include "frn/core/value.h"
#include "frn/study/plain_texts.h"

namespace frn::study {
namespace {

using Texts = std::vector<std::string>;

constexpr int64_t kLargestSeed = 1'000'000'000'000;

// Reads one table: every key is asked for once, and what is left over is an error (or a setting).
class Reader {
 public:
  Reader(const Value& table, std::string where) : table_(table), where_(std::move(where)) {}

  [[noreturn]] void fail(const std::string& what) const { throw Error("study", where_ + ": " + what); }

  std::string text(const char* key, bool needed = false) {
    const auto* node = take(key, needed);
    if (node == nullptr) return "";
    if (node->text() == nullptr) fail(fmt::format("{} must be a text", key));
    return *node->text();
  }

  double number(const char* key) {
    const auto* node = take(key, false);
    if (node == nullptr) return 0;
    if (!node->number()) fail(fmt::format("{} must be a number", key));
    return *node->number();
  }

  int64_t whole_number(const char* key, int64_t least, int64_t most, int64_t otherwise) {
    const auto* node = take(key, false);
    if (node == nullptr) return otherwise;
    const auto* const value = node->whole();
    if (value == nullptr || *value < least || *value > most) {
      fail(fmt::format("{} must be a whole number from {} to {}", key, least, most));
    }
    return *value;
  }

  Texts texts(const char* key) {
    Texts out;
    const auto* node = take(key, false);
    if (node == nullptr) return out;
    if (node->list() == nullptr) fail(fmt::format("{} must be a list of texts", key));
    for (const auto& element : *node->list()) {
      if (element.text() == nullptr) fail(fmt::format("{} must be a list of texts", key));
      out.push_back(*element.text());
    }
    return out;
  }

  // The tables of a list, or none.
  void each(const char* key, const std::function<void(Reader&)>& read) {
    const auto* node = take(key, false);
    if (node == nullptr) return;
    if (node->list() == nullptr) fail(fmt::format("write [[{}]], a list of tables", key));
    size_t number = 0;
    for (const auto& element : *node->list()) {
      const auto where = fmt::format("{}: [[{}]] {}", where_, key, ++number);
      if (element.table() == nullptr) throw Error("study", where + " must be a table");
      Reader reader(element, where);
      read(reader);
    }
  }

  // The tables by name in a table, in the order of the file, or none.
  void named(const char* key, const std::function<void(const std::string&, Reader&)>& read) {
    const auto* node = take(key, false);
    if (node == nullptr) return;
    if (node->table() == nullptr) fail(fmt::format("{} must be a table", key));
    for (const auto& [name, child] : *node->table()) {
      const auto where = fmt::format("{}: [{}.{}]", where_, key, name);
      if (child.table() == nullptr) throw Error("study", where + " must be a table");
      Reader reader(child, where);
      read(name, reader);
    }
  }

  Settings rest() {
    Settings out;
    for (const auto& [name, value] : table_.as_table()) {
      if (std::find(taken_.begin(), taken_.end(), name) != taken_.end()) continue;
      if (value.table() != nullptr) fail(fmt::format("a setting is no table, but {} is one", name));
      if (name == "seed") fail("every training of a cell has its own seed; write seeds and first_seed in [scale.NAME]");
      out[name] = to_toml(value);
    }
    return out;
  }

  void done() const {
    for (const auto& [name, value] : table_.as_table()) {
      if (std::find(taken_.begin(), taken_.end(), name) != taken_.end()) continue;
      const std::vector<std::string_view> known(taken_.begin(), taken_.end());
      fail(fmt::format("unknown key '{}'{}; known: {}", name, suggestion(name, known), join(known)));
    }
  }

  const Value::Table& entries() const { return table_.as_table(); }

 private:
  const Value* take(const char* key, bool needed) {
    taken_.emplace_back(key);
    const auto* node = table_.find(key);
    if (node == nullptr && needed) fail(fmt::format("{} is missing", key));
    return node;
  }

  const Value& table_;
  std::string where_;
  Texts taken_;
};

bool is_name(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.';
  });
}

// `words` is the key of what sentences call the line.
std::vector<Line> read_lines(Reader& from, const char* key, const char* words) {
  std::vector<Line> out;
  from.each(key, [&](Reader& line) {
    Line read{line.text("name", true), line.text("title"), line.text(words), {}};
    if (!is_name(read.name)) line.fail("name must be letters, digits, '-', '_' or '.', for it names a folder");
    if (read.title.empty()) read.title = read.name;
    read.settings = line.rest();
    for (const auto& other : out) {
      if (other.name == read.name) line.fail("there are two of the name " + read.name);
    }
    out.push_back(std::move(read));
  });
  return out;
}

void must_be_known(const Reader& where, const std::string& name, const std::vector<Line>& lines, const char* what) {
  std::vector<std::string_view> known;
  known.reserve(lines.size());
  for (const auto& line : lines) known.push_back(line.name);
  if (std::find(known.begin(), known.end(), name) != known.end()) return;
  where.fail(fmt::format("no {} is named '{}'{}; known: {}", what, name, suggestion(name, known), join(known)));
}

void check_cells(const Reader& where, const Definition& study, const Texts& cells) {
  for (const auto& cell : cells) {
    const auto [row, column] = split_cell_name(cell);
    must_be_known(where, row, study.rows, "row");
    if (!column.empty()) must_be_known(where, column, study.columns, "column");
  }
}

std::optional<MetricKind> read_kind(Reader& from) {
  const auto text = from.text("kind");
  if (text.empty()) return std::nullopt;
  if (text == "share") return MetricKind::kShare;
  if (text == "loss") return MetricKind::kLoss;
  if (text == "count") return MetricKind::kCount;
  if (text == "number") return MetricKind::kNumber;
  from.fail("kind must be share, loss, count or number but is '" + text + "'");
}

std::optional<bool> read_direction(Reader& from) {
  const auto text = from.text("better");
  if (text.empty()) return std::nullopt;
  if (text != "higher" && text != "lower") from.fail("better must be higher or lower but is '" + text + "'");
  return text == "higher";
}

std::vector<NamedMetric> read_metrics(Reader& from) {
  std::vector<NamedMetric> out;
  from.each("metric", [&](Reader& metric) {
    out.push_back({metric.text("key", true), metric.text("title", true), read_kind(metric), read_direction(metric)});
    metric.done();
  });
  if (!out.empty()) return out;
  for (const auto& metric : classification_metrics()) out.push_back({metric.key, metric.title});
  return out;
}

void check_metric(const Reader& where, const Definition& study, const std::string& metric) {
  for (const auto& known : study.metrics) {
    if (known.key == metric) return;
  }
  where.fail(fmt::format("no [[metric]] has the key '{}'", metric));
}

std::vector<PublishedValue> read_values(const Reader& from, const std::string& row, const Value& node, size_t columns) {
  std::vector<PublishedValue> out;
  if (const auto* list = node.list()) {
    for (const auto& value : *list) {
      if (value.number())
        out.push_back({*value.number(), false});
      else if (value == "diverged")
        out.push_back({0, true});
      else
        from.fail(row + " must be a list of numbers, or \"diverged\"");
    }
  }
  if (out.size() != columns) {
    from.fail(fmt::format("{} must be a list of {} values, one for each column, but has {}", row, columns, out.size()));
  }
  return out;
}

void read_published(Reader& from, Definition& study) {
  from.named("published", [&](const std::string& metric, Reader& values) {
    check_metric(values, study, metric);
    for (const auto& [row, list] : values.entries()) {
      must_be_known(values, row, study.rows, "row");
      study.published[metric][row] = read_values(values, row, list, study.columns.size());
    }
  });
}

void read_scales(Reader& from, Definition& study) {
  from.named("scale", [&](const std::string& name, Reader& table) {
    Scale scale;
    scale.name = name;
    scale.about = table.text("about");
    scale.needs_data = table.text("needs_data");
    scale.random = table.text("random");
    scale.chance = table.number("chance");
    scale.seeds = table.whole_number("seeds", 1, kMostSeeds, 1);
    scale.first_seed = table.whole_number("first_seed", 0, kLargestSeed, 0);
    scale.only_rows = table.texts("rows");
    for (const auto& row : scale.only_rows) must_be_known(table, row, study.rows, "row");
    scale.only_columns = table.texts("columns");
    for (const auto& column : scale.only_columns) must_be_known(table, column, study.columns, "column");
    table.named("row", [&](const std::string& row, Reader& settings) {
      must_be_known(settings, row, study.rows, "row");
      scale.rows[row] = settings.rest();
    });
    table.named("column", [&](const std::string& column, Reader& settings) {
      must_be_known(settings, column, study.columns, "column");
      if (auto title = settings.text("title"); !title.empty()) scale.titles[column] = std::move(title);
      if (auto words = settings.text("phrase"); !words.empty()) scale.words[column] = std::move(words);
      scale.columns[column] = settings.rest();
    });
    table.named("cell", [&](const std::string& cell, Reader& settings) {
      check_cells(settings, study, {cell});
      scale.cells[cell] = settings.rest();
    });
    scale.settings = table.rest();
    study.scales.push_back(std::move(scale));
  });
}

void read_claims(Reader& from, Definition& study) {
  from.each("claim", [&](Reader& table) {
    Claim claim;
    claim.text = table.text("text", true);
    claim.place = table.text("place");
    claim.metric = table.text("metric");
    claim.columns = table.texts("columns");
    claim.higher = table.texts("higher");
    claim.lower = table.texts("lower");
    claim.better = table.texts("better");
    claim.worse = table.texts("worse");
    claim.close = table.texts("close");
    claim.diverges = table.texts("diverges");
    claim.by = table.number("by");
    claim.within = table.number("within");
    table.done();
    if (claim.metric.empty()) claim.metric = study.metrics.front().key;
    check_metric(table, study, claim.metric);
    for (const auto* cells :
         {&claim.higher, &claim.lower, &claim.better, &claim.worse, &claim.close, &claim.diverges}) {
      check_cells(table, study, *cells);
    }
    for (const auto& column : claim.columns) must_be_known(table, column, study.columns, "column");
    int given = 0;
    for (const auto* cells : {&claim.higher, &claim.better, &claim.close, &claim.diverges}) {
      given += cells->empty() ? 0 : 1;
    }
    if (given != 1 || claim.higher.empty() != claim.lower.empty() || claim.better.empty() != claim.worse.empty()) {
      table.fail("a claim has higher and lower, or better and worse, or close and within, or diverges");
    }
    study.claims.push_back(std::move(claim));
  });
}

// A figure over the columns has a logarithmic axis.
void check_numbered(const Reader& from, const std::vector<Line>& columns) {
  for (const auto& column : columns) {
    char* end = nullptr;
    const double number = std::strtod(column.name.c_str(), &end);
    if (*end == '\0' && std::isfinite(number) && number > 0) continue;
    from.fail("a figure of kind columns needs columns whose names are numbers above 0 but one is '" + column.name +
              "'; name them so, or leave the figure out");
  }
}

void read_figures(Reader& from, Definition& study) {
  from.each("figure", [&](Reader& table) {
    Figure figure{table.text("file", true), table.text("kind", true), table.text("metric"), table.text("caption"),
                  table.text("x_label"),    table.texts("rows"),      table.texts("inset")};
    table.done();
    if (!is_name(figure.file)) table.fail("file must be letters, digits, '-', '_' or '.'");
    if (figure.kind != "columns" && figure.kind != "curves") {
      table.fail("kind must be columns or curves but is '" + figure.kind + "'");
    }
    if (figure.kind == "columns") check_numbered(table, study.columns);
    if (figure.metric.empty()) figure.metric = study.metrics.front().key;
    check_metric(table, study, figure.metric);
    for (const auto& row : figure.rows) must_be_known(table, row, study.rows, "row");
    for (const auto& column : figure.inset) must_be_known(table, column, study.columns, "column");
    study.figures.push_back(std::move(figure));
  });
}

void add_words(Definition& study) {
  for (auto& row : study.rows) {
    if (row.words.empty()) row.words = row.title;
  }
  for (auto& column : study.columns) {
    if (column.words.empty() && !column.title.empty()) column.words = "(" + column.title + ")";
  }
}

Definition read_study(const Value& table, const std::string& name, const std::string& source) {
  Reader reader(table, source);
  Definition study;
  study.name = name;
  study.title = reader.text("title", true);
  study.place = reader.text("place");
  study.about = reader.text("about");
  study.column_title = reader.text("column_title");
  study.reference = reader.text("reference");
  study.metrics = read_metrics(reader);
  study.rows = read_lines(reader, "row", "short");
  study.columns = read_lines(reader, "column", "phrase");
  if (study.rows.empty()) reader.fail("a study needs at least one [[row]]");
  if (study.columns.empty()) study.columns = {{"all", "", "", {}}};
  add_words(study);
  if (!study.reference.empty()) must_be_known(reader, study.reference, study.rows, "row");
  read_published(reader, study);
  read_scales(reader, study);
  if (study.scales.empty()) reader.fail("a study needs at least one [scale.NAME]");
  read_claims(reader, study);
  read_figures(reader, study);
  reader.done();
  return study;
}

}  // namespace

constexpr std::string_view kOfTraining = "train.";

bool is_of_training(std::string_view key) { return key.starts_with(kOfTraining); }

std::string_view key_in_log(std::string_view key) { return is_of_training(key) ? key.substr(kOfTraining.size()) : key; }

CellName split_cell_name(std::string_view text) {
  const auto at = text.find('@');
  if (at == std::string_view::npos) return {std::string(text), ""};
  return {std::string(text.substr(0, at)), std::string(text.substr(at + 1))};
}

const PublishedValue* Definition::published_at(const std::string& metric, size_t row, size_t column) const {
  const auto values = published.find(metric);
  if (values == published.end()) return nullptr;
  const auto list = values->second.find(rows.at(row).name);
  return list == values->second.end() ? nullptr : &list->second.at(column);
}

const Scale& Definition::scale(const std::string& wanted) const {
  std::vector<std::string_view> known;
  for (const auto& scale : scales) {
    if (scale.name == wanted) return scale;
    known.push_back(scale.name);
  }
  throw Error("study",
              fmt::format("{} has no scale '{}'{}; known: {}", name, wanted, suggestion(wanted, known), join(known)));
}

Definition parse_study(const std::string& text, const std::string& name, const std::string& source) {
  const auto table = parse_toml_of(source, text, "study");
  check_plain_texts(table, source);
  return read_study(table, name, source);
}

}  // namespace frn::study
