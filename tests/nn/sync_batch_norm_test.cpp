// bn(sync=true): processes that share a batch compute what one process computes on all of it.
#include "frn/nn/sync_batch_norm.h"

#include <gtest/gtest.h>
#include <torch/autograd.h>
#include <torch/utils.h>

#include <barrier>
#include <functional>
#include <thread>
#include <vector>

#include "frn/core/error.h"
#include "frn/nn/batch_norm.h"

namespace frn {
namespace {

constexpr int64_t kChannels = 5;

// Ranks as threads, which exchange through memory.
class Ranks {
 public:
  explicit Ranks(int64_t count) : count_(count), rows_(static_cast<size_t>(count)), barrier_(count) {}

  GatherRanks gather(int64_t rank) {
    return [this, rank](const at::Tensor& own) {
      rows_[static_cast<size_t>(rank)] = own.detach().clone();
      barrier_.arrive_and_wait();
      auto all = at::stack(rows_);
      barrier_.arrive_and_wait();
      return all;
    };
  }

  void run(const std::function<void(int64_t rank)>& body) const {
    std::vector<std::jthread> threads;
    for (int64_t rank = 0; rank < count_; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  }

 private:
  int64_t count_;
  std::vector<at::Tensor> rows_;
  std::barrier<> barrier_;
};

struct Result {
  at::Tensor y, dx, dweight, dbias, running_mean, running_var;
};

NormAct make_layer(at::ScalarType type) {
  auto layer = NormActSpec::parse("bn(sync=true)+none").make(kChannels);
  const torch::NoGradGuard no_grad;
  layer->weight.copy_(at::linspace(0.5, 1.5, kChannels));
  layer->bias.copy_(at::linspace(-1, 1, kChannels));
  layer->to(type);
  return layer;
}

BatchMethodImpl& batch(const NormAct& module) { return dynamic_cast<BatchMethodImpl&>(*module.ptr()); }

Result train(NormAct layer, const at::Tensor& part, const at::Tensor& dy) {
  const auto x = part.clone(at::MemoryFormat::Preserve).requires_grad_();
  const auto y = layer(x);
  y.backward(dy);
  const auto& bn = batch(layer);
  return {y.detach(), x.grad(), layer->weight.grad(), layer->bias.grad(), bn.running_mean, bn.running_var};
}

// Parts of different sizes, so that equal weights of ranks would be found out; far from 0, so that a variance from
// squares would be too.
std::vector<int64_t> sizes_of(int64_t ranks) {
  return ranks == 2 ? std::vector<int64_t>{1, 4} : std::vector<int64_t>{2, 0, 3};
}

void expect_as_one(int64_t count, at::ScalarType type, at::MemoryFormat format, double tolerance) {
  torch::manual_seed(3);
  const auto sizes = sizes_of(count);
  const auto x = (at::randn({5, kChannels, 4, 3}, at::kDouble) * 2 + 30).to(type).contiguous(format);
  const auto dy = at::randn({5, kChannels, 4, 3}, at::kDouble).to(type).contiguous(format);
  const auto whole = train(make_layer(type), x, dy);

  Ranks ranks(count);
  std::vector<Result> parts(static_cast<size_t>(count));
  const auto xs = x.split_with_sizes(sizes);
  const auto dys = dy.split_with_sizes(sizes);
  ranks.run([&](int64_t rank) {
    auto layer = make_layer(type);
    set_gather(*layer, ranks.gather(rank));
    const auto i = static_cast<size_t>(rank);
    parts[i] = train(layer, xs[i], dys[i]);
  });
  std::vector<at::Tensor> y, dx;
  auto dweight = at::zeros_like(whole.dweight), dbias = at::zeros_like(whole.dbias);
  for (const auto& part : parts) {
    y.push_back(part.y);
    dx.push_back(part.dx);
    dweight += part.dweight;
    dbias += part.dbias;
    EXPECT_TRUE(torch::equal(part.running_mean, parts[0].running_mean));
    EXPECT_TRUE(torch::equal(part.running_var, parts[0].running_var));
  }
  const auto close = [&](const at::Tensor& a, const at::Tensor& b, const char* what) {
    EXPECT_LE((a - b).abs().max().item<double>(), tolerance * b.abs().max().item<double>()) << what;
  };
  close(at::cat(y), whole.y, "y");
  close(at::cat(dx), whole.dx, "dx");
  close(dweight, whole.dweight, "dweight");
  close(dbias, whole.dbias, "dbias");
  close(parts[0].running_mean, whole.running_mean, "running_mean");
  close(parts[0].running_var, whole.running_var, "running_var");
}

TEST(SyncBatchNorm, PartsOfABatchOnSeveralRanksAreOneBatch) {
  for (const int64_t count : {2, 3}) {
    for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
      expect_as_one(count, at::kDouble, format, 1e-13);
      // Values near 30 with a deviation of 2: float32 holds them to 30/2*2^-24 of the deviation, and 60 are summed.
      expect_as_one(count, at::kFloat, format, 60 * 15 * 6e-8);
    }
  }
}

TEST(SyncBatchNorm, VirtualDevicesShareTheStatisticsToo) {
  const auto x = at::randn({4, kChannels, 3, 3});
  auto sync = NormActSpec::parse("bn(sync=true)+relu").make(kChannels);
  auto plain = NormActSpec::parse("bn+relu").make(kChannels);
  set_virtual_devices(*sync, 4);
  EXPECT_TRUE(torch::equal(sync(x), plain(x)));
  EXPECT_TRUE(torch::equal(batch(sync).running_var, batch(plain).running_var));
}

TEST(SyncBatchNorm, EvalModeAsksNobody) {
  auto layer = NormActSpec::parse("bn(sync=true)+relu").make(kChannels);
  set_gather(*layer, [](const at::Tensor&) -> at::Tensor { throw Error("test", "asked"); });
  layer->eval();
  EXPECT_NO_THROW(layer(at::randn({2, kChannels, 3, 3})));
  layer->train();
  EXPECT_THROW(layer(at::randn({2, kChannels, 3, 3})), Error);
}

TEST(SyncBatchNorm, OneValueOnAllRanksTogetherIsRefused) {
  auto layer = NormActSpec::parse("bn(sync=true)+relu").make(kChannels);
  set_gather(*layer, [](const at::Tensor& own) { return own.unsqueeze(0); });
  try {
    layer(at::randn({1, kChannels, 1, 1}));
    FAIL() << "one value has no variance";
  } catch (const Error& error) {
    EXPECT_NE(std::string(error.what()).find("more than 1 value per channel on all processes"), std::string::npos);
  }
}

TEST(SyncBatchNorm, ASecondDerivativeIsRefusedNotWrong) {
  auto layer = NormActSpec::parse("bn(sync=true)+none").make(kChannels);
  set_gather(*layer, [](const at::Tensor& own) { return own.unsqueeze(0); });
  const auto x = at::randn({2, kChannels, 3, 3}).requires_grad_(true);
  const auto y = layer(x).square().sum();
  try {
    torch::autograd::grad({y}, {x}, {}, /*retain_graph=*/true, /*create_graph=*/true);
    FAIL() << "a graph of constants was made";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("can be differentiated once"), std::string::npos) << error.what();
  }
  EXPECT_TRUE(torch::autograd::grad({y}, {x})[0].defined());
}

TEST(SyncBatchNorm, OnlyLayersThatSayItAreJoined) {
  auto layer = NormActSpec::parse("bn(sync=false)+relu").make(kChannels);
  set_gather(*layer, [](const at::Tensor&) -> at::Tensor { throw Error("test", "asked"); });
  EXPECT_NO_THROW(layer(at::randn({2, kChannels, 3, 3})));
}

}  // namespace
}  // namespace frn
