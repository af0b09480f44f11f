// ATen's threads without ATen's headers, which cost seconds in sources that only have an option for them.
#pragma once

namespace frn::cli {

// As many as ATen takes by itself: the processors, or what OMP_NUM_THREADS says.
int default_threads();
void set_threads(int count);

}  // namespace frn::cli
