#include "frn/cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "frn/core/error.h"

namespace frn::cli {

void print_json(const Value& value) {
  const auto text = to_json(value, 2) + "\n";
  if (std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0) return;
  throw Error("output", std::string("cannot write to standard output: ") + std::strerror(errno));
}

}  // namespace frn::cli
