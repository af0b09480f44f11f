#include "frn/cli/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <atomic>
#include <limits>
#include <memory>

#ifdef FRN_HAVE_TCMALLOC
#include <gperftools/malloc_extension.h>
#endif

namespace frn::cli {
namespace {

std::atomic<int64_t> live_bytes{0};
std::atomic<int64_t> peak_bytes{0};

void add_live(int64_t bytes) {
  const int64_t now = live_bytes += bytes;
  int64_t peak = peak_bytes;
  while (now > peak && !peak_bytes.compare_exchange_weak(peak, now)) {
  }
}

struct Block {
  c10::DataPtr data;
  int64_t bytes;
};

void release(void* context) {
  const std::unique_ptr<Block> block(static_cast<Block*>(context));
  live_bytes -= block->bytes;
}

// Passes every request on to LibTorch's own allocator and counts it.
class CountingAllocator : public c10::Allocator {
 public:
  explicit CountingAllocator(c10::Allocator* next) : next_(next) {}
  c10::DataPtr allocate(size_t bytes) override {
    auto block = std::make_unique<Block>(Block{next_->allocate(bytes), static_cast<int64_t>(bytes)});
    add_live(block->bytes);
    void* const data = block->data.get();
    return {data, block.release(), &release, c10::DeviceType::CPU};
  }
  void copy_data(void* dest, const void* src, std::size_t count) const override { default_copy_data(dest, src, count); }

 private:
  c10::Allocator* next_;
};

constexpr uint8_t kAboveDefault = 100;

c10::Allocator* usual_allocator() {
  static c10::Allocator* const usual = c10::GetCPUAllocator();
  return usual;
}

}  // namespace

void keep_freed_memory() {
#ifdef FRN_HAVE_TCMALLOC
  MallocExtension::instance()->SetMemoryReleaseRate(0);
#else
  mallopt(M_MMAP_THRESHOLD, std::numeric_limits<int>::max());
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

std::string allocator_name() {
#ifdef FRN_HAVE_TCMALLOC
  return "tcmalloc, freed memory kept";
#else
  return "glibc malloc, thresholds raised";
#endif
}

TensorBytes::TensorBytes() {
  static CountingAllocator counting(usual_allocator());
  live_bytes = 0;
  peak_bytes = 0;
  c10::SetCPUAllocator(&counting, kAboveDefault);
}
TensorBytes::~TensorBytes() { c10::SetCPUAllocator(usual_allocator(), kAboveDefault); }
int64_t TensorBytes::live() const { return live_bytes; }
int64_t TensorBytes::peak() const { return peak_bytes; }

}  // namespace frn::cli
