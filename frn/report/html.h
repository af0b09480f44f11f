// The pieces of a report's page: each gives HTML, and what they are given as text is escaped here and nowhere else. The
// page is one file: its style is inside, and it loads nothing from the network.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace frn::report::html {

// Text in which & < > " ' mean nothing, and control characters are spaces.
std::string escape(std::string_view text);

struct Column {
  std::string title;
  bool numbers = false;  // set to the right, digits under digits
};

struct Cell {
  // NOLINTNEXTLINE(google-explicit-constructor): a row reads as its texts
  Cell(std::string text, std::optional<double> share = std::nullopt) : text(std::move(text)), share(share) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  Cell(const char* text) : text(text) {}

  // The style of the text: soft (secondary), strong, good, bad, open.
  Cell&& in(std::string_view tone) && {
    this->tone = tone;
    return std::move(*this);
  }

  // A click on the text goes to the figure of this name on the same page.
  Cell&& to_figure(std::string_view name) && {
    this->figure = name;
    return std::move(*this);
  }

  std::string text;
  std::string tone;
  std::string figure;
  std::optional<double> share;  // between 0 and 1: drawn as a bar beside the text
};

struct Table {
  std::vector<Column> columns;
  std::vector<std::vector<Cell>> rows;
  size_t together = 1;  // rows per group; rules are drawn between groups
};

// A table too wide for the screen scrolls by itself; the page does not.
std::string table(const Table& table);

// Sentences that were judged: the verdict before each, its grounds below it.
struct Judged {
  std::string verdict, tone, sentence, grounds;
};
std::string judgements(const std::vector<Judged>& entries);

// Names and values, in as many columns as there is room for.
std::string properties(const std::vector<std::pair<std::string, std::string>>& entries);

// The contents of an svg file, which must be our own (it is not escaped). Names inside it are made its own with `name`,
// so that a page can have many; its lines and letters take the page's colours.
std::string figure(std::string_view svg, std::string_view name, std::string_view caption);
// The contents of a png file, inside the page.
std::string picture(std::string_view png, std::string_view caption);
// Figures side by side where there is room.
std::string figures(const std::vector<std::string>& figures);

std::string paragraph(std::string_view text);
std::string section(std::string_view title, const std::string& content);

// The whole file. `summary` is the sentence under the title, `source` the one at the end.
std::string page(std::string_view title, std::string_view summary, const std::string& content, std::string_view source);

}  // namespace frn::report::html
