#include "frn/kernels/emulation/fiber.h"

#include <cstdint>

// This file is compiled without sanitizers and tells them of the change of stacks.
#ifdef FRN_EMULATION_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif
#ifdef FRN_EMULATION_THREAD_SANITIZER
#include <sanitizer/tsan_interface.h>
#endif

#ifdef __x86_64__
// Saves what a function must preserve on the old stack, and takes up the new one. A system call per change of stack, as
// swapcontext makes, would be most of the emulator's time.
extern "C" void frn_change_stack(void** old_stack, void* new_stack);
asm(R"(
  .text
  .p2align 4
  .globl frn_change_stack
  .hidden frn_change_stack
  .type frn_change_stack, @function
frn_change_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size frn_change_stack, .-frn_change_stack
)");
#endif

namespace frn::kernels::emulation {

void Fiber::start(void (*entry)()) {
  stack_.resize(kStackBytes);
#ifdef __x86_64__
  // As if `entry` had been called by nobody: six registers, its address, and a return address that is never used.
  char* const end = stack_.data() + kStackBytes;
  char* const top = end - reinterpret_cast<uintptr_t>(end) % 16;
  auto* const words = reinterpret_cast<void**>(top) - 8;
  for (int i = 0; i < 8; ++i) words[i] = nullptr;
  words[6] = reinterpret_cast<void*>(entry);
  here_ = static_cast<void*>(words);
#else
  getcontext(&here_);
  here_.uc_stack.ss_sp = stack_.data();
  here_.uc_stack.ss_size = kStackBytes;
  here_.uc_link = nullptr;
  makecontext(&here_, entry, 0);
#endif
}

void Fiber::resume() {
#ifdef FRN_EMULATION_ADDRESS_SANITIZER
  void* fake_stack = nullptr;
  __sanitizer_start_switch_fiber(&fake_stack, stack_.data(), kStackBytes);
#endif
#ifdef FRN_EMULATION_THREAD_SANITIZER
  caller_thread_ = __tsan_get_current_fiber();
  if (thread_ == nullptr) thread_ = __tsan_create_fiber(0);
  __tsan_switch_to_fiber(thread_, __tsan_switch_to_fiber_no_sync);
#endif
#ifdef __x86_64__
  frn_change_stack(&caller_, here_);
#else
  swapcontext(&caller_, &here_);
#endif
#ifdef FRN_EMULATION_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

void Fiber::entered() {
#ifdef FRN_EMULATION_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(nullptr, &caller_bottom_, &caller_size_);
#endif
}

void Fiber::leave() {
#ifdef FRN_EMULATION_ADDRESS_SANITIZER
  __sanitizer_start_switch_fiber(&fake_stack_, caller_bottom_, caller_size_);
#endif
#ifdef FRN_EMULATION_THREAD_SANITIZER
  __tsan_switch_to_fiber(caller_thread_, __tsan_switch_to_fiber_no_sync);
#endif
#ifdef __x86_64__
  frn_change_stack(&here_, caller_);
#else
  swapcontext(&here_, &caller_);
#endif
#ifdef FRN_EMULATION_ADDRESS_SANITIZER
  __sanitizer_finish_switch_fiber(fake_stack_, &caller_bottom_, &caller_size_);
#endif
}

}  // namespace frn::kernels::emulation
