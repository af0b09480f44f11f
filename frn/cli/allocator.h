// The memory allocator of the program, and a way to see how much memory tensors hold.
#pragma once

#include <cstdint>
#include <string>

namespace frn::cli {

// Makes the allocator keep freed memory instead of handing it back to the kernel. Call first thing in main.
void keep_freed_memory();

// What the program runs on, in a few words.
std::string allocator_name();

// Counts the bytes of live CPU tensors while it exists. Not for use by two threads at once.
class TensorBytes {
 public:
  TensorBytes();
  ~TensorBytes();
  TensorBytes(const TensorBytes&) = delete;
  TensorBytes& operator=(const TensorBytes&) = delete;

  int64_t live() const;
  int64_t peak() const;
};

// What a training step allocates beyond the weights, gradients included, at its highest point.
template <typename Step>
double peak_megabytes(const Step& step) {
  const TensorBytes bytes;
  step();
  return static_cast<double>(bytes.peak()) / 1e6;
}

}  // namespace frn::cli
