// By itself, since its header changes with every commit.
#include "frn/cli/version.h"

#include <torch/version.h>

#include "commit.h"

namespace frn::cli {

std::string commit() { return FRN_COMMIT; }

std::string version_text() {
  const auto built_from = commit() == "unknown" ? "unknown commit" : "commit " + commit();
  return "frn " FRN_VERSION " (" + built_from + ", LibTorch " TORCH_VERSION ")";
}

}  // namespace frn::cli
