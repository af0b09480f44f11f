#include "tests/kernels/cuda/cuda_call.h"

#include "frn/kernels/cuda/backward.cuh"
#include "frn/kernels/cuda/forward.cuh"
#include "frn/kernels/cuda/gradients.cuh"

namespace frn::kernels::cuda {
namespace {

// Values at an address that is `misalign` of them past a 256-byte line, as CUDA's allocator has them, or a view of its.
template <typename V>
class Array {
 public:
  explicit Array(int64_t size, int64_t misalign = 0) : size_(static_cast<size_t>(size)) {
    constexpr size_t kAlign = 256;
    memory_.resize(size_ * sizeof(V) + 2 * kAlign);
    const auto address = reinterpret_cast<uintptr_t>(memory_.data());
    first_ = (kAlign - address % kAlign) % kAlign + static_cast<size_t>(misalign) * sizeof(V);
  }
  Array(const std::vector<double>& values, int64_t misalign) : Array(static_cast<int64_t>(values.size()), misalign) {
    for (size_t i = 0; i < size_; ++i) from_float(static_cast<Accumulate<V>>(values[i]), data()[i]);
  }
  V* data() { return reinterpret_cast<V*>(memory_.data() + first_); }
  size_t bytes() const { return size_ * sizeof(V); }
  std::vector<double> values() {
    std::vector<double> out(size_);
    for (size_t i = 0; i < size_; ++i) out[i] = static_cast<double>(to_float(data()[i]));
    return out;
  }

 private:
  size_t size_;
  size_t first_ = 0;
  std::vector<std::byte> memory_;
};

template <typename T>
void run_kernel(Kernel kernel, const Arguments<T>& a) {
  switch (kernel) {
// A template's name cannot stand in parentheses. NOLINTBEGIN(bugprone-macro-parentheses)
#define FRN_CASE(name, function) \
  case Kernel::name:             \
    return function<T>(a);
    FRN_CUDA_KERNELS(FRN_CASE)
#undef FRN_CASE
    // NOLINTEND(bugprone-macro-parentheses)
  }
}

}  // namespace

template <typename T>
Results run_on_cuda(const Call& call, const Inputs& in, const Setting& setting, const Launch<T>& launch,
                    const AfterLaunch& after) {
  using A = Accumulate<T>;
  const auto [samples, channels, positions] = call.shape;
  const bool norm = call.norm != Norm::kIdentity;
  Array<T> x(in.x, call.misalign), dz(in.dz, call.misalign), z(call.size(), call.misalign),
      dx(call.size(), call.misalign);
  Array<A> gamma(in.gamma, 0), beta(in.beta, 0), tau(in.tau, 0), kappa(in.kappa, 0), eps(in.eps, 0);
  Array<A> mean(samples * call.groups), rstd(samples * call.groups), partials(samples * kPartials * channels);
  Array<A> gradients[kPartials] = {Array<A>(channels), Array<A>(channels), Array<A>(channels), Array<A>(channels),
                                   Array<A>(call.eps_per_channel ? channels : 1)};

  Arguments<T> a{};
  a.x = x.data();
  a.out = z.data();
  a.gamma = norm ? gamma.data() : nullptr;
  a.beta = norm ? beta.data() : nullptr;
  a.tau = call.threshold == Threshold::kNone ? nullptr : tau.data();
  a.kappa = call.threshold == Threshold::kAffine ? kappa.data() : nullptr;
  a.eps = norm ? eps.data() : nullptr;
  a.mean = call.norm == Norm::kCentered ? mean.data() : nullptr;
  a.rstd = norm ? rstd.data() : nullptr;
  a.samples = samples;
  a.channels = static_cast<int32_t>(channels);
  a.positions = static_cast<int32_t>(positions);
  a.groups = static_cast<int32_t>(norm ? call.groups : channels);
  a.group_channels = a.channels / a.groups;
  a.norm = call.norm;
  a.threshold = call.threshold;
  a.eps_per_channel = call.eps_per_channel;

  const auto run_all = [&](bool backward) {
    const Plan plan = plan_call(shape_of(a, call.layout, backward), setting.device);
    Array<double> sums(plan.sums);
    Array<A> coefficients(plan.coefficients);
    a.sums = plan.sums > 0 ? sums.data() : nullptr;
    a.coefficients = plan.coefficients > 0 ? coefficients.data() : nullptr;
    run_steps(plan, a, [&](const Step& step, const Arguments<T>& arguments) {
      emulation::Memory memory;
      memory.add("x", x.data(), x.bytes(), false);
      if (backward) memory.add("dz", dz.data(), dz.bytes(), false);
      memory.add("out", a.out, x.bytes(), true);
      memory.add("gamma", a.gamma, gamma.bytes(), false);
      memory.add("beta", a.beta, beta.bytes(), false);
      memory.add("tau", a.tau, tau.bytes(), false);
      memory.add("kappa", a.kappa, kappa.bytes(), false);
      memory.add("eps", a.eps, eps.bytes(), false);
      memory.add("mean", a.mean, mean.bytes(), !backward);
      memory.add("rstd", a.rstd, rstd.bytes(), !backward);
      memory.add("sums", a.sums, sums.bytes(), true);
      memory.add("coefficients", a.coefficients, coefficients.bytes(), true);
      memory.add("partials", a.partials, partials.bytes(), true);
      for (int row = 0; row < kPartials; ++row) {
        memory.add("gradients", a.gradients[row], gradients[row].bytes(), true);
      }
      launch(step, arguments, memory);
      if (after) after(step, memory);
    });
  };
  run_all(false);

  a.dz = dz.data();
  a.out = setting.dx ? dx.data() : nullptr;
  const auto wants = [&](int row) {
    if (row == kTauRow) return call.threshold != Threshold::kNone;
    if (row == kKappaRow) return call.threshold == Threshold::kAffine;
    return norm;
  };
  bool any = false;
  for (int row = 0; row < kPartials; ++row) {
    a.gradients[row] = wants(row) ? gradients[row].data() : nullptr;
    any = any || wants(row);
  }
  a.partials = any ? partials.data() : nullptr;
  run_all(true);

  const auto gradient = [&](int row) { return wants(row) ? gradients[row].values() : std::vector<double>(); };
  Results out{z.values(), {}, gradient(kGammaRow), gradient(kBetaRow), gradient(kTauRow), gradient(kKappaRow), {}};
  if (setting.dx) out.dx = dx.values();
  // Results has eps's gradient per group; one eps for all groups has their sum.
  if (wants(kEpsRow)) out.deps = gradients[kEpsRow].values();
  return out;
}

template <typename T>
Launch<T> emulated(const Setting& setting) {
  return [setting](const Step& step, const Arguments<T>& a, emulation::Memory& memory) {
    const emulation::Grid grid{step.grid,     step.threads, static_cast<size_t>(step.shared_bytes),
                               setting.order, setting.seed, setting.count_requests};
    emulation::launch(grid, memory, [&] { run_kernel(step.kernel, a); });
  };
}

#define FRN_INSTANTIATE(T)                                                                                           \
  template Results run_on_cuda<T>(const Call&, const Inputs&, const Setting&, const Launch<T>&, const AfterLaunch&); \
  template Launch<T> emulated<T>(const Setting&);
FRN_INSTANTIATE(float)
FRN_INSTANTIATE(double)
FRN_INSTANTIATE(BFloat16)
FRN_INSTANTIATE(Float16)
#undef FRN_INSTANTIATE

}  // namespace frn::kernels::cuda
