// Texts from other people's files: errors in them name the file, and since they are shown in charts, tables, pages and
// terminals, each must be one plain line.
#pragma once

#include <string>
#include <string_view>

#include "frn/core/value.h"

namespace frn::study {

// Looks at all keys and texts of a file's value. Throws frn::Error "[study] source: row.2.title must be ..." for the
// first with a control character. Only the text of a key `about` may have many lines.
void check_plain_texts(const Value& value, const std::string& source);

}  // namespace frn::study
