// A stack of its own that can be left in the middle of a function and entered again.
#pragma once

#include <cstddef>
#include <vector>

#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace frn::kernels::emulation {

class Fiber {
 public:
  static constexpr size_t kStackBytes = size_t{64} * 1024;

  // Runs `entry` from its beginning at the next resume(). It must end in leave(), never return.
  void start(void (*entry)());
  // From the caller's stack to the fiber's, until that calls leave().
  void resume();
  // The first thing that `entry` calls.
  void entered();
  void leave();

 private:
  std::vector<char> stack_;
#ifdef __x86_64__
  void* here_ = nullptr;
  void* caller_ = nullptr;
#else
  ucontext_t here_;
  ucontext_t caller_;
#endif
  // What the sanitizers want to know of the two stacks: as large in every build, since only fiber.cpp knows which it
  // is.
  [[maybe_unused]] void* fake_stack_ = nullptr;
  [[maybe_unused]] void* thread_ = nullptr;
  [[maybe_unused]] void* caller_thread_ = nullptr;
  [[maybe_unused]] const void* caller_bottom_ = nullptr;
  [[maybe_unused]] size_t caller_size_ = 0;
};

}  // namespace frn::kernels::emulation
