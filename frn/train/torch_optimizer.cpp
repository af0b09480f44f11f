// torch's own optimisers behind ours.
#include <ATen/ops/empty.h>
#include <torch/optim/optimizer.h>
#include <torch/optim/serialize.h>
#include <torch/serialize.h>

#include <cstring>
#include <sstream>

#include "frn/core/error.h"
#include "frn/train/optimizer.h"

namespace frn::train {
namespace {

constexpr const char* kState = "torch_optimizer";

class TorchOptimizer : public Optimizer {
 public:
  explicit TorchOptimizer(std::shared_ptr<torch::optim::Optimizer> optimizer) : optimizer_(std::move(optimizer)) {
    if (optimizer_ == nullptr || optimizer_->param_groups().empty()) {
      throw Error("optimizer", "an optimiser with at least one parameter group must be given but there is none");
    }
    const double first = optimizer_->param_groups().front().options().get_lr();
    for (auto& group : optimizer_->param_groups()) {
      scales_.push_back(first == 0 ? 1 : group.options().get_lr() / first);
    }
  }

  void step(double lr) override {
    auto& groups = optimizer_->param_groups();
    for (size_t i = 0; i < groups.size(); ++i) groups[i].options().set_lr(lr * (i < scales_.size() ? scales_[i] : 1));
    optimizer_->step();
  }

  NamedTensors state() const override {
    torch::serialize::OutputArchive archive;
    optimizer_->save(archive);
    std::ostringstream stream;
    archive.save_to(stream);
    const auto bytes = stream.str();
    auto tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
    std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
    return {{kState, tensor}};
  }

  void load(const NamedTensors& state) override {
    const auto found = state.find(kState);
    if (found == state.end() || found->second.scalar_type() != at::kByte) {
      throw Error(
          "optimizer",
          "the checkpoint must hold the state of an optimiser of torch's but does not; it was made with another");
    }
    const auto bytes = found->second.contiguous();
    std::istringstream stream(
        std::string(static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())));
    try {
      torch::serialize::InputArchive archive;
      archive.load_from(stream);
      optimizer_->load(archive);
    } catch (const c10::Error& error) {
      throw Error("optimizer", std::string("the checkpoint's state must fit the optimiser but does not: ") +
                                   error.what_without_backtrace());
    }
  }

 private:
  std::shared_ptr<torch::optim::Optimizer> optimizer_;
  std::vector<double> scales_;
};

}  // namespace

std::unique_ptr<Optimizer> wrap_optimizer(std::shared_ptr<torch::optim::Optimizer> optimizer) {
  return std::make_unique<TorchOptimizer>(std::move(optimizer));
}

}  // namespace frn::train
