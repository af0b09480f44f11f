// Texts of other people's files as fields of a line of CSV.
#pragma once

#include <string>

namespace frn::report {

// In quotes where it has a comma, a quote or a line break.
std::string csv_text(const std::string& text);

}  // namespace frn::report
