#include "frn/train/network.h"

#include <ATen/autocast_mode.h>

namespace frn::train {
namespace {

// Products and convolutions in bfloat16 while it lives.
class InBfloat16 {
 public:
  InBfloat16(bool on, at::DeviceType device) : on_(on), device_(device) {
    if (!on_) return;
    at::autocast::set_autocast_dtype(device_, at::kBFloat16);
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::increment_nesting();
  }
  ~InBfloat16() {
    if (!on_) return;
    // The cache of narrow weights must not outlive their next change.
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, false);
  }
  InBfloat16(const InBfloat16&) = delete;
  InBfloat16& operator=(const InBfloat16&) = delete;

 private:
  bool on_;
  at::DeviceType device_;
};

}  // namespace

at::Device Network::device() const {
  const auto parameters = module_->parameters();
  return parameters.empty() ? at::Device(at::kCPU) : parameters.front().device();
}

Outputs Network::forward(const at::Tensor& input, bool bfloat16) const {
  const auto place = device();
  const InBfloat16 autocast(bfloat16, place.type());
  return forward_(input.to(place));
}

}  // namespace frn::train
