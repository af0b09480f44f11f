// The loops of the optimisers over plain memory, in a source of their own: it is compiled for speed, and without
// torch's headers. Arrays do not overlap.
#pragma once

#include <cstdint>

namespace frn::train {

struct SgdUpdate {
  float lr;
  float momentum;
  float weight_decay;
  bool nesterov;
};

// One read and one write of w and v, where ATen's three calls take three.
void update_floats(float* w, float* v, const float* g, int64_t count, const SgdUpdate& update);

struct AdamWUpdate {
  float beta1;
  float beta2;
  float eps;
  float decay;         // 1 - lr*weight_decay
  float rate;          // lr/(1 - beta1^t)
  float square_scale;  // 1/sqrt(1 - beta2^t)
};

void update_floats(float* w, float* m, float* v, const float* g, int64_t count, const AdamWUpdate& update);

}  // namespace frn::train
