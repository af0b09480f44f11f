// The table of a study as text: for people (Markdown) and for programs (CSV).
#pragma once

#include "frn/study/claims.h"

namespace frn::report {

// "76.21", "diverged", or a dash.
std::string published_text(const Metric& metric, const study::PublishedValue* value);
// Ours minus the paper's: "+1.00"; a dash where either has no number.
std::string difference_text(const study::CellSummary& ours, const study::PublishedValue* published);
// summary_text, with "= " before it where the cell is the same training as another.
std::string value_text(const study::CellSummary& summary);

// "47 of 48 cells finished (18 are the same training as another), 1 diverged, 3 seeds".
std::string state_of_cells(const study::Results& results);

// What "= " before a value means; empty where no cell is the same training as another.
std::string note_on_same_cells(const study::Results& results);

// "P@1, %", "loss"
std::string title_with_unit(const Metric& metric);
// Over the verdicts: whose claims they are.
std::string title_of_claims(const study::Results& results);

// Letters as a terminal shows them.
size_t width_of(std::string_view text);

// The claims, the paper's values beside ours for every metric, and what is not finished. `figures` are names of files
// beside it and what is to be seen on them.
std::string markdown_of(const study::Results& results,
                        const std::vector<std::pair<std::string, std::string>>& figures = {});
// A line for each cell and seed.
std::string csv_of(const study::Results& results);

// One line for each cell that is not finished: its state and why. Diverged cells are results and are named too.
struct CellNote {
  std::string cell, state, message;
};
std::vector<CellNote> notes_of(const study::Results& results);

}  // namespace frn::report
