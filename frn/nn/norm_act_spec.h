// The names of layers stand in frn/spec, which the operators use too.
#pragma once

#include "frn/spec/norm_act_spec.h"  // IWYU pragma: export
