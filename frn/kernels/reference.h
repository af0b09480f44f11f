// The scalar reference implementation.
#pragma once

#include "frn/kernels/kernels.h"

namespace frn::kernels {

template <typename T>
const LayoutLoops<T>* reference_loops();

}  // namespace frn::kernels
