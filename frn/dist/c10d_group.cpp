// The ranks of a run on c10d, PyTorch's own: a store where they meet, engines that carry tensors, its reducer.
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <fmt/format.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <cstring>
#include <future>
#include <map>
#include <thread>

#include "frn/dist/engines.h"
#include "frn/dist/group.h"

namespace frn::dist {
namespace {

using ProcessGroup = c10::intrusive_ptr<c10d::ProcessGroup>;

// Ranks that wait in the same collective give up within this time of each other.
constexpr auto kAskTimeout = std::chrono::seconds(3);
constexpr const char* kNoStore = "rank 0, where ranks meet, does not answer";
constexpr auto kAskAgain = std::chrono::milliseconds(50);

// c10d's, with the buckets that PyTorch's DistributedDataParallel takes.
class BucketReducer : public Reducer {
 public:
  BucketReducer(const ProcessGroup& group, const std::vector<at::Tensor>& parameters) {
    const std::vector<bool> dense(parameters.size(), false);
    const std::vector<size_t> limits{c10d::kDefaultFirstBucketBytes, c10d::kDefaultBucketBytesCap};
    auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, limits, dense));
    // Backward finishes with the first layers.
    std::reverse(buckets.begin(), buckets.end());
    reducer_ = std::make_shared<c10d::Reducer>(
        parameters, std::move(buckets), group, dense, c10d::kDefaultBucketBytesCap, /*find_unused_parameters=*/false,
        /*gradient_as_bucket_view=*/true, std::unordered_map<size_t, std::string>{}, c10d::kDefaultFirstBucketBytes,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<int64_t>{});
  }

  void prepare() override { reducer_->prepare_for_backward({}); }

 private:
  std::shared_ptr<c10d::Reducer> reducer_;
};

class C10dGroup : public Group {
 public:
  C10dGroup(const Place& place, std::chrono::milliseconds timeout) : place_(place), timeout_(timeout) {
    try {
      connect();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw Error("dist", fmt::format("rank {} of {} cannot meet the others at {}:{} within {:.0f} s: {}", place.rank,
                                      place.world, place.master_address, place.master_port, seconds(),
                                      first_line(error.what())));
    }
  }

  int64_t rank() const override { return place_.rank; }
  int64_t world() const override { return place_.world; }

  void set_device(at::Device device) override {
    device_ = device;
    if (device.is_cuda()) add_engine(at::kCUDA, c10d::ProcessGroup::BackendType::NCCL, "nccl", make_nccl);
  }
  at::Device device() const override { return device_; }

  void broadcast(const std::vector<at::Tensor>& tensors) override {
    // One message per type (and place): a network has hundreds of small tensors.
    std::map<std::pair<at::ScalarType, at::DeviceType>, std::vector<at::Tensor>> by_type;
    for (const auto& tensor : tensors) {
      by_type[{tensor.scalar_type(), tensor.device().type()}].push_back(tensor.detach());
    }
    for (auto& [type, list] : by_type) {
      std::vector<at::Tensor> parts;
      for (const auto& tensor : list) parts.push_back(tensor.reshape({-1}));
      std::vector<at::Tensor> packed{at::cat(parts)};
      waiting("broadcast", [&] { group_->broadcast(packed)->wait(); });
      int64_t begin = 0;
      for (auto& tensor : list) {
        tensor.copy_(packed[0].narrow(0, begin, tensor.numel()).view(tensor.sizes()));
        begin += tensor.numel();
      }
    }
  }

  void all_reduce(at::Tensor tensor) override {
    waiting("all-reduce", [&] {
      std::vector<at::Tensor> one{std::move(tensor)};
      group_->allreduce(one)->wait();
    });
  }

  void barrier() override {
    waiting("barrier", [&] { group_->barrier()->wait(); });
  }

  std::string broadcast_text(const std::string& text) override {
    auto length = at::empty({1}, at::kLong);
    length.fill_(static_cast<int64_t>(text.size()));
    broadcast({length});
    if (length.item<int64_t>() == 0) return {};
    auto bytes = at::empty({length.item<int64_t>()}, at::kByte);
    if (is_first()) std::memcpy(bytes.mutable_data_ptr(), text.data(), text.size());
    broadcast({bytes});
    return {static_cast<const char*>(bytes.const_data_ptr()), static_cast<size_t>(bytes.numel())};
  }

  std::unique_ptr<Reducer> make_reducer(const std::vector<at::Tensor>& parameters) override {
    return std::make_unique<BucketReducer>(group_, parameters);
  }

  void tell_step(int64_t step) override {
    step_ = step;
    try {
      const auto text = std::to_string(step);
      store_->set(step_key(place_.rank), std::vector<uint8_t>(text.begin(), text.end()));
    } catch (const std::exception& error) {
      throw failure("telling its step", error.what());
    }
  }

  Error failure(const std::string& what, const std::string& reason) override {
    return {"dist", fmt::format("rank {} waited in {} (step {}) and got no answer within {:.0f} s, or lost a peer: {}; "
                                "{}; start the run again with --resume",
                                place_.rank, what, step_, seconds(), first_line(reason), who_is_behind())};
  }

 private:
  static std::string step_key(int64_t rank) { return "step/" + std::to_string(rank); }
  static std::string alive_key(int64_t rank) { return "alive/" + std::to_string(rank); }
  double seconds() const { return std::chrono::duration<double>(timeout_).count(); }
  static std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

  void connect() {
    c10d::TCPStoreOptions options;
    options.port = static_cast<uint16_t>(place_.master_port);
    options.isServer = place_.rank == 0 && !place_.agent_store;
    options.numWorkers = place_.world;
    options.waitWorkers = false;
    options.timeout = timeout_;
    auto tcp = c10::make_intrusive<c10d::TCPStore>(place_.master_address, options);
    // A restarted run must not read what the one before it left in torchrun's store.
    store_ = c10::make_intrusive<c10d::PrefixStore>("frn/" + std::to_string(place_.restarts), tcp);
    store_->setTimeout(timeout_);
    group_ =
        c10::make_intrusive<c10d::ProcessGroup>(store_, static_cast<int>(place_.rank), static_cast<int>(place_.world));
    add_engine(at::kCPU, c10d::ProcessGroup::BackendType::GLOO, "gloo", make_gloo);
    group_->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
    group_->setGroupName("frn");
  }

  template <typename Make>
  void add_engine(at::DeviceType device, c10d::ProcessGroup::BackendType type, const char* name, const Make& make) {
    const auto engine = make(c10::make_intrusive<c10d::PrefixStore>(name, store_), place_, timeout_);
    group_->setBackend(device, type, engine);
    engine->setGroupUid("frn");
  }

  template <typename Function>
  void waiting(const char* what, const Function& function) {
    try {
      function();
    } catch (const Error&) {
      throw;
    } catch (const std::exception& error) {
      throw failure(what, error.what());
    }
  }

  // Every rank that fails tells the store; those that stay silent hang or are dead. The store may be gone with rank 0,
  // or behind a link that swallows the question: then nobody waits for the answer.
  std::string who_is_behind() const {
    const auto answer = std::make_shared<std::promise<std::string>>();
    auto answered = answer->get_future();
    std::thread([answer, store = store_, place = place_] {
      try {
        answer->set_value(ask_who_is_behind(*store, place));
      } catch (const std::exception&) {
        answer->set_value(kNoStore);
      }
    }).detach();
    return answered.wait_for(2 * kAskTimeout) == std::future_status::ready ? answered.get() : kNoStore;
  }

  static std::string ask_who_is_behind(c10d::Store& store, const Place& place) {
    store.set(alive_key(place.rank), std::vector<uint8_t>{1});
    const auto deadline = std::chrono::steady_clock::now() + kAskTimeout;
    std::vector<int64_t> silent;
    do {
      silent.clear();
      for (int64_t rank = 0; rank < place.world; ++rank) {
        if (!store.check({alive_key(rank)})) silent.push_back(rank);
      }
      if (silent.empty()) return "all ranks are alive: the network between them broke";
      std::this_thread::sleep_for(kAskAgain);
    } while (std::chrono::steady_clock::now() < deadline);
    std::string text;
    for (const int64_t rank : silent) {
      text += fmt::format("{}rank {} does not answer (it began step {})", text.empty() ? "" : ", ", rank,
                          step_of(store, rank));
    }
    return text;
  }

  static std::string step_of(c10d::Store& store, int64_t rank) {
    if (!store.check({step_key(rank)})) return "none";
    const auto bytes = store.get(step_key(rank));
    return {bytes.begin(), bytes.end()};
  }

  Place place_;
  std::chrono::milliseconds timeout_;
  int64_t step_ = 0;
  at::Device device_{at::kCPU};
  StorePointer store_;
  ProcessGroup group_;
};

}  // namespace

std::shared_ptr<Group> make_group(const Place& place, std::chrono::milliseconds timeout) {
  return std::make_shared<C10dGroup>(place, timeout);
}

}  // namespace frn::dist
