#include "frn/cli/threads.h"

#include <ATen/Parallel.h>

namespace frn::cli {

int default_threads() { return at::get_num_threads(); }
void set_threads(int count) { at::set_num_threads(count); }

}  // namespace frn::cli
