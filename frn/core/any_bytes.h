// Names of files and folders are bytes; JSON and TOML hold Unicode alone. A name that is not UTF-8 is written with each
// stray byte b as the private character U+10FF00 + b, and read back as it was. All other texts stay as they are.
#pragma once

#include <string>
#include <string_view>

namespace frn {

std::string to_unicode(std::string_view bytes);
std::string from_unicode(std::string_view text);

// The length of the well-formed UTF-8 character that the text begins with; 0 when it begins with none.
size_t character_length(std::string_view text);

}  // namespace frn
