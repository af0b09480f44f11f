// From a call's arguments to the launches that it is made of. What launches them is given: CUDA, or a test.
#pragma once

#include "frn/kernels/cuda/plan.h"

namespace frn::kernels::cuda {

template <typename T>
CallShape shape_of(const Arguments<T>& a, Layout layout, bool backward) {
  CallShape call;
  call.samples = a.samples;
  call.channels = a.channels;
  call.positions = a.positions;
  call.groups = a.groups;
  call.value_bytes = sizeof(T);
  call.accumulate_bytes = sizeof(Accumulate<T>);
  call.layout = layout;
  call.norm = a.norm;
  call.backward = backward;
  call.writes = a.out != nullptr;
  for (const auto* gradient : a.gradients) call.parameter_gradients |= gradient != nullptr;
  call.x = reinterpret_cast<uintptr_t>(a.x);
  call.dz = reinterpret_cast<uintptr_t>(a.dz);
  call.out = reinterpret_cast<uintptr_t>(a.out);
  return call;
}

// launch(step, arguments) for every step, in order. `a` has all pointers, those of the plan's memory too.
template <typename T, typename Launch>
void run_steps(const Plan& plan, Arguments<T> a, Launch launch) {
  a.cut = plan.cut;
  for (const Step& step : plan.steps) {
    a.first_sample = step.first_sample;
    a.samples = step.samples;
    launch(step, a);
  }
}

}  // namespace frn::kernels::cuda
