#include "frn/core/error.h"

namespace frn {

Error::Error(std::string_view operation, std::string_view sentence)
    : std::runtime_error("[" + std::string(operation) + "] " + std::string(sentence)) {}

}  // namespace frn
