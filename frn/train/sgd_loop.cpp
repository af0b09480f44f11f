#include "frn/train/sgd_loop.h"

namespace frn::train {

void update_floats(float* w, float* v, const float* g, int64_t count, const SgdUpdate& update) {
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] + update.weight_decay * w[i];
    v[i] = update.momentum * v[i] + gradient;
    w[i] -= update.lr * v[i];
  }
}

}  // namespace frn::train
