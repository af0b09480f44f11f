// One gradient of one global batch: the forward and backward passes of all virtual devices, in as many pieces as memory
// allows.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "frn/core/random.h"
#include "frn/train/task.h"

namespace frn::train {

struct StepOptions {
  int64_t batch_per_device = 32;
  int64_t devices = 1;         // virtual ones of this process; batch methods take their statistics on each
  int64_t images_at_once = 0;  // 0: a whole micro-batch (batch_per_device*devices) goes through the network at once
  bool bfloat16 = false;       // autocast
  // Called before the backward pass whose end completes the gradient of a batch.
  std::function<void()> before_last = nullptr;
  // Called between two micro-batches of a batch: ranks without device 0 get the statistics that the one before changed.
  std::function<void()> between_micro_batches = nullptr;
  // Makes of the weight of this process's batch the mean of all processes' weights; for a task whose batches weigh
  // differently.
  std::function<double(double)> mean_weight = nullptr;
  // Goes on with backward although the loss is not finite: other ranks wait for this one's gradients.
  bool always_backward = false;
  bool holds_device_0 = true;  // whose statistics the running ones follow
};

struct StepResult {
  double loss = 0;       // the mean over the batch; not finite: the gradients are not complete, or not finite either
  NamedValues losses{};  // its parts, where there are several
  double weight = 0;     // what the means are over: the samples, or what the task counts
  int64_t samples = 0;
  std::vector<double> score{};  // the training score of the batch, packed
};

class Step {
 public:
  Step(Network network, std::shared_ptr<const Task> task, StepOptions options);

  // Adds the gradient of the batch's mean loss to the parameters' gradients. A batch of more than
  // batch_per_device*devices samples is taken as several micro-batches (gradient accumulation); its size is a multiple
  // of the devices. `keys`, one per sample, are those of random numbers: dropout's masks follow from them, and torch's
  // own generator from the first of a piece. Without them random numbers are the caller's. Stops at the first piece
  // whose loss is not finite, unless told to go on.
  StepResult run(const data::Batch& batch, std::span<const RandomKey> keys = {});

  // The forward passes of run() alone: the same pieces, without gradients and without a trace in the running
  // statistics. `begin` is called before each.
  void look(const at::Tensor& images, std::span<const RandomKey> keys, const std::function<void()>& begin);

  const Network& network() const { return network_; }

 private:
  // What goes through the network together: whole devices.
  struct Piece {
    int64_t begin, length;  // samples
    int64_t devices;
    bool with_device_0;
    bool last_of_micro_batch;
    bool last;  // of the batch
  };
  std::vector<Piece> pieces_of(int64_t batch) const;
  Outputs forward_piece(const at::Tensor& images, std::span<const RandomKey> keys, const Piece& piece,
                        bool with_statistics);
  void run_piece(const data::Batch& batch, std::span<const RandomKey> keys, const Piece& piece, double whole_weight,
                 Score& score, StepResult& result);
  bool goes_on(const StepResult& result) const;

  Network network_;
  std::shared_ptr<const Task> task_;
  StepOptions options_;
  int64_t devices_set_ = 0;
  bool tracking_set_ = true;
};

}  // namespace frn::train
