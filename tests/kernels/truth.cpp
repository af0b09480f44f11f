#include "tests/kernels/truth.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <thread>

namespace frn::kernels {
namespace {

template <typename T>
double rounded(double value) {
  T narrow;
  from_float(static_cast<Accumulate<T>>(value), narrow);
  return static_cast<double>(to_float(narrow));
}

// Runs the ranges of a parallel call on real threads, so that the thread sanitizer sees them.
struct Threads {
  int count;
  template <typename F>
  void operator()(int64_t total, const F& f) const {
    if (count == 1) {
      f(0, total, 0);
      return;
    }
    std::vector<std::thread> threads;
    for (int i = 0; i < count; ++i) {
      const int64_t begin = total * i / count;
      const int64_t end = total * (i + 1) / count;
      threads.emplace_back([&f, begin, end, i] { f(begin, end, i); });
    }
    for (auto& thread : threads) thread.join();
  }
};

// An array that starts `misalign` elements after a cache line, with guards on both sides.
template <typename T>
class Guarded {
 public:
  Guarded(int64_t size, int64_t misalign) : size_(static_cast<size_t>(size)) {
    const size_t before = kCacheLine + static_cast<size_t>(misalign) * sizeof(T);
    memory_.assign(before + size_ * sizeof(T) + 2 * kCacheLine, std::byte{0xa5});
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    const size_t shift = (kCacheLine - address % kCacheLine) % kCacheLine;
    first_ = shift + static_cast<size_t>(misalign) * sizeof(T);
  }
  T* data() { return reinterpret_cast<T*>(memory_.data() + first_); }

  void fill(const std::vector<double>& values) {
    for (size_t i = 0; i < values.size(); ++i) from_float(static_cast<Accumulate<T>>(values[i]), data()[i]);
  }
  std::vector<double> values() {
    std::vector<double> out(size_);
    for (size_t i = 0; i < size_; ++i) out[i] = static_cast<double>(to_float(data()[i]));
    return out;
  }
  bool guards_hold() const {
    for (size_t i = 0; i < memory_.size(); ++i) {
      const bool inside = i >= first_ && i < first_ + size_ * sizeof(T);
      if (!inside && memory_[i] != std::byte{0xa5}) return false;
    }
    return true;
  }

 private:
  size_t size_;
  size_t first_ = 0;
  std::vector<std::byte> memory_;
};

struct AlignedBytes {
  explicit AlignedBytes(size_t bytes) : memory(bytes + kCacheLine) {}
  std::byte* data() {
    const auto address = reinterpret_cast<uintptr_t>(memory.data());
    return memory.data() + (kCacheLine - address % kCacheLine) % kCacheLine;
  }
  std::vector<std::byte> memory;
};

}  // namespace

template <typename T>
Inputs make_inputs(const Call& call) {
  std::mt19937_64 random(call.seed);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0, 1);
  Inputs in;
  const auto fill = [](std::vector<double>& out, int64_t size, auto next) {
    out.resize(static_cast<size_t>(size));
    for (auto& v : out) v = next();
  };
  using A = Accumulate<T>;
  const int64_t c = call.shape.channels;
  fill(in.x, call.size(), [&] { return rounded<T>(call.scale * (normal(random) + call.offset)); });
  fill(in.dz, call.size(), [&] { return rounded<T>(normal(random)); });
  fill(in.gamma, c, [&] { return rounded<A>(normal(random)); });
  fill(in.beta, c, [&] { return rounded<A>(normal(random)); });
  fill(in.tau, c, [&] { return rounded<A>(0.5 * normal(random)); });
  fill(in.kappa, c, [&] { return rounded<A>(0.5 * uniform(random)); });
  fill(in.eps, call.eps_per_channel ? c : 1, [&] { return rounded<A>(call.eps * (0.5 + uniform(random))); });
  if (call.added) fill(in.shortcut, call.size(), [&] { return rounded<T>(normal(random)); });
  return in;
}

template <typename T>
Results run(const Call& call, const Inputs& in, const Implementation& implementation) {
  using A = Accumulate<T>;
  const auto [samples, channels, positions] = call.shape;
  Guarded<T> x(call.size(), call.misalign), dz(call.size(), call.misalign), z(call.size(), call.misalign),
      dx(call.size(), call.misalign), shortcut(call.added ? call.size() : 0, call.misalign),
      dshortcut(call.added ? call.size() : 0, call.misalign);
  Guarded<A> gamma(channels, call.misalign), beta(channels, call.misalign), tau(channels, call.misalign),
      kappa(channels, call.misalign), eps(static_cast<int64_t>(in.eps.size()), call.misalign),
      mean(samples * call.groups, call.misalign), rstd(samples * call.groups, call.misalign),
      partials(samples * kPartialRows * channels, call.misalign);
  x.fill(in.x);
  dz.fill(in.dz);
  if (call.added) shortcut.fill(in.shortcut);
  gamma.fill(in.gamma);
  beta.fill(in.beta);
  tau.fill(in.tau);
  kappa.fill(in.kappa);
  eps.fill(in.eps);

  BackwardProblem<T> p;
  p.samples = samples;
  p.channels = channels;
  p.positions = positions;
  p.groups = call.groups;
  p.layout = call.layout;
  p.norm = call.norm;
  p.threshold = call.threshold;
  p.x = x.data();
  p.gamma = gamma.data();
  p.beta = beta.data();
  p.tau = tau.data();
  p.kappa = kappa.data();
  p.eps = eps.data();
  p.eps_per_channel = call.eps_per_channel;
  p.mean = mean.data();
  p.rstd = rstd.data();
  p.stream = call.stream;
  p.dz = dz.data();
  p.dx = dx.data();
  p.shortcut = call.added ? shortcut.data() : nullptr;
  p.dshortcut = call.added ? dshortcut.data() : nullptr;
  p.partials = partials.data();
  const auto& loops = implementation.loops<T>(call.layout);
  const Threads parallel{call.threads};
  {
    const auto plan = make_plan(p, call.added ? 2 : 1, call.threads);
    AlignedBytes workspace(workspace_bytes(p, plan, call.threads));
    Driver<T>(p, loops, plan, workspace.data()).forward(z.data(), parallel);
  }
  {
    const auto plan = make_plan(p, call.added ? 3 : 2, call.threads);
    AlignedBytes workspace(workspace_bytes(p, plan, call.threads));
    Driver<T>(p, loops, plan, workspace.data()).backward(p, parallel);
  }
  for (const bool hold :
       {x.guards_hold(), dz.guards_hold(), z.guards_hold(), dx.guards_hold(), mean.guards_hold(), rstd.guards_hold(),
        partials.guards_hold(), shortcut.guards_hold(), dshortcut.guards_hold()}) {
    EXPECT_TRUE(hold) << implementation.name << " wrote outside its arrays";
  }

  Results out{z.values(), dx.values(), {}, {}, {}, {}, {}, dshortcut.values()};
  const auto total = [&](int row, int64_t columns) {
    std::vector<double> sums(static_cast<size_t>(columns));
    for (int64_t n = 0; n < samples; ++n) {
      for (int64_t c = 0; c < columns; ++c) {
        sums[static_cast<size_t>(c)] += static_cast<double>(partials.data()[(n * kPartialRows + row) * channels + c]);
      }
    }
    return sums;
  };
  if (call.norm != Norm::kIdentity) {
    out.dbeta = total(kPartialBeta, channels);
    out.dgamma = total(kPartialGamma, channels);
    out.deps = total(kPartialEps, call.groups);
  }
  if (call.threshold != Threshold::kNone) out.dtau = total(kPartialTau, channels);
  if (call.threshold == Threshold::kAffine) out.dkappa = total(kPartialKappa, channels);
  return out;
}

namespace {

// Wider than double, so that the truth's own rounding does not count when doubles are tested.
using Wide = long double;

struct WideResults {
  std::vector<Wide> z, dx, dgamma, dbeta, dtau, dkappa, deps, dshortcut;
};
struct WideTruth {
  WideResults value, magnitude, flips;
};

std::vector<double> narrow(const std::vector<Wide>& wide) { return {wide.begin(), wide.end()}; }
Results narrow(const WideResults& r) {
  return {narrow(r.z),    narrow(r.dx),     narrow(r.dgamma), narrow(r.dbeta),
          narrow(r.dtau), narrow(r.dkappa), narrow(r.deps),   narrow(r.dshortcut)};
}

}  // namespace

Truth compute_truth(const Call& call, const Inputs& in, double unit) {
  const auto [samples, channels, positions] = call.shape;
  Problem<double> p;
  p.samples = samples;
  p.channels = channels;
  p.positions = positions;
  p.layout = call.layout;
  const auto zeros = [](int64_t n) { return std::vector<Wide>(static_cast<size_t>(n)); };
  WideTruth t;
  for (auto* r : {&t.value, &t.magnitude, &t.flips}) {
    r->z = r->dx = zeros(call.size());
    if (call.added) r->dshortcut = zeros(call.size());
    r->dgamma = r->dbeta = r->dtau = r->dkappa = zeros(channels);
    r->deps = zeros(call.groups);
  }
  const int64_t group_channels = channels / call.groups;
  const Wide m = static_cast<Wide>(group_channels * positions);
  const bool normalised = call.norm != Norm::kIdentity;
  const bool centered = call.norm == Norm::kCentered;
  for (int64_t n = 0; n < samples; ++n) {
    for (int64_t g = 0; g < call.groups; ++g) {
      const auto each = [&](auto f) {
        for (int64_t c = g * group_channels; c < (g + 1) * group_channels; ++c) {
          for (int64_t i = 0; i < positions; ++i) f(static_cast<size_t>(c), static_cast<size_t>(p.offset(n, c, i)));
        }
      };
      Wide mean = 0;
      Wide s2 = 0;
      if (centered) each([&](size_t, size_t at) { mean += in.x[at] / m; });
      each([&](size_t, size_t at) { s2 += (in.x[at] - mean) * (in.x[at] - mean) / m; });
      const Wide rstd =
          normalised ? 1 / std::sqrt(s2 + in.eps[call.eps_per_channel ? static_cast<size_t>(g) : 0]) : Wide(1);

      struct Value {
        Wide xhat, xhat_size, y, y_size, threshold, dy, dy_size, flip;
        bool blocked;
      };
      const auto evaluate = [&](size_t c, size_t at) {
        Value v{};
        v.xhat = (in.x[at] - mean) * rstd;
        v.xhat_size = (std::abs(in.x[at]) + std::abs(mean)) * rstd;
        const Wide gamma = normalised ? in.gamma[c] : 1;
        const Wide beta = normalised ? in.beta[c] : 0;
        v.y = gamma * v.xhat + beta;
        v.y_size = std::abs(gamma) * v.xhat_size + std::abs(beta);
        if (call.added) {
          v.y += in.shortcut[at];
          v.y_size += std::abs(in.shortcut[at]);
        }
        const Wide tau = in.tau[c];
        const Wide kappa = call.threshold == Threshold::kAffine ? in.kappa[c] : 0;
        v.threshold = kappa * v.y + tau;
        v.blocked = call.threshold != Threshold::kNone && v.y < v.threshold;
        v.dy = v.blocked ? kappa * in.dz[at] : in.dz[at];
        v.dy_size = std::abs(v.dy);
        // Within eight roundings of the threshold either side is right.
        const Wide doubt = 8 * unit * (v.y_size * (1 + std::abs(kappa)) + std::abs(tau));
        const bool close = call.threshold != Threshold::kNone && std::abs(v.y - v.threshold) <= doubt;
        v.flip = close ? std::abs(in.dz[at]) * std::abs(1 - kappa) : 0;
        return v;
      };

      Wide ghat = 0, ghat_size = 0, ghat_xhat = 0, ghat_xhat_size = 0, ghat_flip = 0, ghat_xhat_flip = 0;
      each([&](size_t c, size_t at) {
        const Value v = evaluate(c, at);
        const Wide gamma = normalised ? in.gamma[c] : 1;
        t.value.z[at] = v.blocked ? v.threshold : v.y;
        t.magnitude.z[at] = v.y_size * (v.blocked && call.threshold == Threshold::kAffine ? 1 + in.kappa[c] : 1) +
                            (v.blocked ? std::abs(in.tau[c]) : 0);
        ghat += gamma * v.dy / m;
        ghat_size += std::abs(gamma) * v.dy_size / m;
        ghat_xhat += gamma * v.dy * v.xhat / m;
        ghat_xhat_size += std::abs(gamma) * v.dy_size * v.xhat_size / m;
        ghat_flip += std::abs(gamma) * v.flip / m;
        ghat_xhat_flip += std::abs(gamma) * v.flip * v.xhat_size / m;
        const auto add = [&](std::vector<Wide> WideResults::*r, Wide value, Wide magnitude, Wide flip) {
          (t.value.*r)[c] += value;
          (t.magnitude.*r)[c] += magnitude;
          (t.flips.*r)[c] += flip;
        };
        add(&WideResults::dgamma, v.dy * v.xhat, v.dy_size * v.xhat_size, v.flip * v.xhat_size);
        add(&WideResults::dbeta, v.dy, v.dy_size, v.flip);
        const Wide stopped = v.blocked ? in.dz[at] : 0;
        const Wide flip_dz = v.flip > 0 ? std::abs(in.dz[at]) : 0;
        add(&WideResults::dtau, stopped, std::abs(stopped), flip_dz);
        add(&WideResults::dkappa, stopped * v.y, std::abs(stopped) * v.y_size, flip_dz * v.y_size);
      });
      t.value.deps[static_cast<size_t>(g)] += -0.5 * rstd * rstd * ghat_xhat * m;
      t.magnitude.deps[static_cast<size_t>(g)] += 0.5 * rstd * rstd * ghat_xhat_size * m;
      t.flips.deps[static_cast<size_t>(g)] += 0.5 * rstd * rstd * ghat_xhat_flip * m;
      each([&](size_t c, size_t at) {
        const Value v = evaluate(c, at);
        if (call.added) {
          t.value.dshortcut[at] = v.dy;
          t.magnitude.dshortcut[at] = v.dy_size;
          t.flips.dshortcut[at] = v.flip;
        }
        if (!normalised) {
          t.value.dx[at] = v.dy;
          t.magnitude.dx[at] = v.dy_size;
          t.flips.dx[at] = v.flip;
          return;
        }
        const Wide gamma = std::abs(in.gamma[c]);
        t.value.dx[at] = rstd * (in.gamma[c] * v.dy - (centered ? ghat : 0) - v.xhat * ghat_xhat);
        t.magnitude.dx[at] = rstd * (gamma * v.dy_size + (centered ? ghat_size : 0) + v.xhat_size * ghat_xhat_size);
        t.flips.dx[at] = rstd * (gamma * v.flip + (centered ? ghat_flip : 0) + v.xhat_size * ghat_xhat_flip);
      });
    }
  }
  return {narrow(t.value), narrow(t.magnitude), narrow(t.flips)};
}

template Inputs make_inputs<float>(const Call&);
template Inputs make_inputs<double>(const Call&);
template Inputs make_inputs<BFloat16>(const Call&);
template Inputs make_inputs<Float16>(const Call&);
template Results run<float>(const Call&, const Inputs&, const Implementation&);
template Results run<double>(const Call&, const Inputs&, const Implementation&);
template Results run<BFloat16>(const Call&, const Inputs&, const Implementation&);
template Results run<Float16>(const Call&, const Inputs&, const Implementation&);

}  // namespace frn::kernels
