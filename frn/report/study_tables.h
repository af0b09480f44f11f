// The table of a study as text: for people (Markdown) and for programs (CSV).
#pragma once

#include "frn/report/study_claims.h"

namespace frn::report {

// "76.21", "diverged", or a dash.
std::string published_text(const PublishedValue* value);
// Ours less the paper's: "+1.00"; a dash where one of them is no number.
std::string difference_text(const CellSummary& ours, const PublishedValue* published);

// The paper's values beside ours for every metric, what is not finished, and the claims.
std::string markdown_of(const StudyResults& results);
// A line for each cell and seed.
std::string csv_of(const StudyResults& results);

// One line for each cell that is not finished: its state and why. Diverged cells are results and are named too.
struct CellNote {
  std::string cell, state, message;
};
std::vector<CellNote> notes_of(const StudyResults& results);

}  // namespace frn::report
