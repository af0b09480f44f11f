#include "frn/cli/output.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "frn/core/error.h"

namespace frn::cli {
namespace {

// What failed earlier has left no reason.
[[noreturn]] void cannot_write() {
  throw Error("output", std::string("cannot write to standard output") +
                            (errno == 0 ? "; is its disk full?" : std::string(": ") + std::strerror(errno)));
}

}  // namespace

void check_output() {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) cannot_write();
}

void print_json(const Value& value) {
  const auto text = to_json(value, 2) + "\n";
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size()) cannot_write();
  check_output();
}

}  // namespace frn::cli
