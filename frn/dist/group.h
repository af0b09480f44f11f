// dist/ joins processes that train one model: who they are (environment), how they talk (group; one source per engine),
// and how gradients become their mean (reducer). No models, no data.
#pragma once

#include <ATen/core/Tensor.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "frn/core/error.h"

namespace frn::dist {

// Averages gradients over all ranks while backward runs: buckets of parameters are reduced as soon as all their
// gradients are there.
class Reducer {
 public:
  virtual ~Reducer() = default;
  // Call before the backward pass whose end completes the gradients; passes before it only accumulate. Every parameter
  // must take part in that pass.
  virtual void prepare() = 0;
};

// The processes of a run. Every function is called by all ranks, in the same order. What goes wrong (a rank that died
// or hangs longer than the timeout) is frn::Error that names the ranks which are behind, and what was waited for.
class Group {
 public:
  virtual ~Group() = default;

  virtual int64_t rank() const = 0;
  virtual int64_t world() const = 0;
  bool is_first() const { return rank() == 0; }

  // Where this rank computes: memory, unless set. Called once, before tensors of that device are sent.
  virtual void set_device(at::Device device) = 0;
  virtual at::Device device() const = 0;

  // Rank 0's values go to all; every tensor has the same shape and type on all ranks.
  virtual void broadcast(const std::vector<at::Tensor>& tensors) = 0;
  // The sum over ranks, in place.
  virtual void all_reduce(at::Tensor tensor) = 0;
  virtual void barrier() = 0;
  // Rank 0's text.
  virtual std::string broadcast_text(const std::string& text) = 0;

  // For parameters that require gradients, in the order in which layers use them.
  virtual std::unique_ptr<Reducer> make_reducer(const std::vector<at::Tensor>& parameters) = 0;

  // The sentence for something that failed elsewhere than in these functions (in a backward pass that reduces).
  virtual Error failure(const std::string& what, const std::string& reason) = 0;

  // Tells the others how far this rank is, for the sentence about one that does not answer.
  virtual void tell_step(int64_t step) = 0;

  // Every rank's tensor (one shape and type), stacked in the order of ranks.
  at::Tensor gather(const at::Tensor& tensor);
  // Throws frn::Error that names the ranks whose tensors differ from rank 0's.
  void check_equal(const std::vector<at::Tensor>& tensors, const std::string& what);
};

// A run of one process: nothing is sent.
std::shared_ptr<Group> make_single_group();

struct Place {
  int64_t rank = 0;
  int64_t world = 1;
  int64_t local_rank = 0;      // among the processes of this machine
  std::string master_address;  // of the store where ranks meet
  int64_t master_port = 0;
  bool agent_store = false;  // torchrun's agent keeps the store: every rank is its client
  int64_t restarts = 0;      // how often torchrun started the ranks again
};

// On c10d: Gloo for tensors in memory, NCCL for those on CUDA devices. Blocks until all ranks have come, at most
// `timeout`.
std::shared_ptr<Group> make_group(const Place& place, std::chrono::milliseconds timeout);

}  // namespace frn::dist
