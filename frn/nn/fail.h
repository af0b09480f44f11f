// Throws frn::Error from one place: inlined beside torch's headers its text makes gcc 12 see an overflow that is not
// there.
#pragma once

#include <string>
#include <string_view>

namespace frn::nn {

[[noreturn]] void fail(std::string_view operation, const std::string& sentence);

}  // namespace frn::nn
