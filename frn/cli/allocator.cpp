#include "frn/cli/allocator.h"

#include <c10/core/CPUAllocator.h>
#include <malloc.h>

#include <atomic>
#include <limits>
#include <mutex>
#include <unordered_map>

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

c10::Allocator* usual_allocator() {
  static c10::Allocator* const usual = c10::GetCPUAllocator();
  return usual;
}

// The sizes of the blocks that were counted. LibTorch also frees blocks by their bare address, so that nothing but a
// table can know them.
std::mutex sizes_mutex;
std::unordered_map<void*, int64_t> sizes;

void release(void* data) {
  {
    const std::lock_guard lock(sizes_mutex);
    const auto found = sizes.find(data);
    if (found != sizes.end()) {
      live_bytes -= found->second;
      sizes.erase(found);
    }
  }
  usual_allocator()->raw_deleter()(data);
}

// Passes every request on to LibTorch's own allocator and counts it.
class CountingAllocator : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    auto block = usual_allocator()->allocate(bytes);
    void* const data = block.release_context();
    if (data != nullptr) {
      const std::lock_guard lock(sizes_mutex);
      sizes[data] = static_cast<int64_t>(bytes);
    }
    add_live(static_cast<int64_t>(bytes));
    return {data, data, &release, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* dest, const void* src, std::size_t count) const override { default_copy_data(dest, src, count); }
};

constexpr uint8_t kAboveDefault = 100;

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
  usual_allocator();  // asked for while it is still the one in use
  static CountingAllocator counting;
  {
    const std::lock_guard lock(sizes_mutex);
    sizes.clear();  // of blocks from an earlier count: from now on they are not ours to subtract
    live_bytes = 0;
    peak_bytes = 0;
  }
  c10::SetCPUAllocator(&counting, kAboveDefault);
}
TensorBytes::~TensorBytes() { c10::SetCPUAllocator(usual_allocator(), kAboveDefault); }
int64_t TensorBytes::live() const { return live_bytes; }
int64_t TensorBytes::peak() const { return peak_bytes; }

}  // namespace frn::cli
