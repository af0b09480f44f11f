// The loop of SGD over plain memory, in a source of its own: it is compiled for speed, and without torch's headers.
#pragma once

#include <cstdint>

namespace frn::train {

struct SgdUpdate {
  float lr;
  float momentum;
  float weight_decay;
};

// g = g + weight_decay*w, v = momentum*v + g, w = w - lr*v: one read and one write of w and v, where ATen's three calls
// take three. The arrays do not overlap.
void update_floats(float* w, float* v, const float* g, int64_t count, const SgdUpdate& update);

}  // namespace frn::train
