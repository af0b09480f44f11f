#include "frn/train/update_loops.h"

#include <cmath>

namespace frn::train {
namespace {

void update_plain(float* w, float* v, const float* g, int64_t count, const SgdUpdate& update) {
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] + update.weight_decay * w[i];
    v[i] = update.momentum * v[i] + gradient;
    w[i] -= update.lr * v[i];
  }
}

void update_nesterov(float* w, float* v, const float* g, int64_t count, const SgdUpdate& update) {
  for (int64_t i = 0; i < count; ++i) {
    const float gradient = g[i] + update.weight_decay * w[i];
    v[i] = update.momentum * v[i] + gradient;
    w[i] -= update.lr * (gradient + update.momentum * v[i]);
  }
}

}  // namespace

void update_floats(float* w, float* v, const float* g, int64_t count, const SgdUpdate& update) {
  (update.nesterov ? update_nesterov : update_plain)(w, v, g, count, update);
}

void update_floats(float* w, float* m, float* v, const float* g, int64_t count, const AdamWUpdate& update) {
  const float new1 = 1 - update.beta1;
  const float new2 = 1 - update.beta2;
  for (int64_t i = 0; i < count; ++i) {
    m[i] = update.beta1 * m[i] + new1 * g[i];
    v[i] = update.beta2 * v[i] + new2 * (g[i] * g[i]);
    const float divisor = std::sqrt(v[i]) * update.square_scale + update.eps;
    w[i] = update.decay * w[i] - update.rate * (m[i] / divisor);
  }
}

}  // namespace frn::train
