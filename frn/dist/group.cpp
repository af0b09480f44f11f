#include "frn/dist/group.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include "frn/core/checksum.h"

namespace frn::dist {
namespace {

uint64_t checksum_of(const std::vector<at::Tensor>& tensors) {
  uint64_t sum = 0;
  for (const auto& tensor : tensors) {
    const auto plain = tensor.detach().to(at::kCPU).contiguous();
    const std::string_view bytes(static_cast<const char*>(plain.const_data_ptr()), plain.nbytes());
    sum = sum * 0x9e3779b97f4a7c15 + checksum(bytes);
  }
  return sum;
}

class SingleReducer : public Reducer {
 public:
  void prepare() override {}
};

class SingleGroup : public Group {
 public:
  int64_t rank() const override { return 0; }
  int64_t world() const override { return 1; }
  void set_device(at::Device device) override { device_ = device; }
  at::Device device() const override { return device_; }
  void broadcast(const std::vector<at::Tensor>& /*tensors*/) override {}
  void all_reduce(at::Tensor /*tensor*/) override {}
  void barrier() override {}
  std::string broadcast_text(const std::string& text) override { return text; }
  std::unique_ptr<Reducer> make_reducer(const std::vector<at::Tensor>& /*parameters*/) override {
    return std::make_unique<SingleReducer>();
  }
  Error failure(const std::string& what, const std::string& reason) override { return {what, reason}; }
  void tell_step(int64_t /*step*/) override {}

 private:
  at::Device device_{at::kCPU};
};

}  // namespace

std::shared_ptr<Group> make_single_group() { return std::make_shared<SingleGroup>(); }

// A sum in which every rank fills its own row: all that is gathered is small.
at::Tensor Group::gather(const at::Tensor& tensor) {
  auto shape = tensor.sizes().vec();
  shape.insert(shape.begin(), world());
  auto rows = at::zeros(shape, tensor.options());
  rows.select(0, rank()).copy_(tensor);
  all_reduce(rows);
  return rows;
}

void Group::check_equal(const std::vector<at::Tensor>& tensors, const std::string& what) {
  if (world() == 1) return;
  const auto sums = gather(at::tensor(static_cast<int64_t>(checksum_of(tensors)), at::kLong));
  std::string others;
  for (int64_t i = 1; i < world(); ++i) {
    if (sums.const_data_ptr<int64_t>()[i] == sums.const_data_ptr<int64_t>()[0]) continue;
    others += (others.empty() ? "" : ", ") + std::to_string(i);
  }
  if (others.empty()) return;
  throw Error("dist", what + " must be the same on all ranks but differ from rank 0's on rank " + others +
                          "; do all machines run the same program and processor type?");
}

}  // namespace frn::dist
