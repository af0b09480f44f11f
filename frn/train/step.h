// One gradient of one global batch: the forward and backward passes of all virtual devices, in as many pieces as memory
// allows.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "frn/core/random.h"
#include "frn/metrics/top_k.h"
#include "frn/models/model.h"

namespace frn::train {

// Called before the backward pass whose end completes the gradient of a batch.
using BeforeLast = std::function<void()>;

struct StepOptions {
  int64_t batch_per_device = 32;
  int64_t devices = 1;         // virtual ones of this process; batch methods take their statistics on each
  int64_t images_at_once = 0;  // 0: a whole micro-batch (batch_per_device*devices) goes through the network at once
  double label_smoothing = 0;
  bool bfloat16 = false;  // autocast
  BeforeLast before_last = nullptr;
  // Called between two micro-batches of a batch: ranks without device 0 get the statistics that the one before changed.
  std::function<void()> between_micro_batches = nullptr;
  // Goes on with backward although the loss is not finite: other ranks wait for this one's gradients.
  bool always_backward = false;
  bool holds_device_0 = true;  // whose statistics the running ones follow
};

struct StepResult {
  double loss = 0;  // the mean over the batch; not finite: the gradients are not complete, or not finite either
  TopK score;
};

class Step {
 public:
  Step(std::shared_ptr<Model> model, const StepOptions& options);

  // Adds the gradient of the batch's mean loss to the parameters' gradients. A batch of more than
  // batch_per_device*devices images is taken as several micro-batches (gradient accumulation); its size is a multiple
  // of the devices. `keys`, one per image, are those of dropout's masks. Stops at the first piece whose loss is not
  // finite, unless told to go on.
  StepResult run(const at::Tensor& images, const at::Tensor& labels, std::span<const RandomKey> keys = {});

  // The forward passes of run() alone: the same pieces, without gradients and without a trace in the running
  // statistics. `begin` is called before each.
  void look(const at::Tensor& images, std::span<const RandomKey> keys, const std::function<void()>& begin);

  const std::shared_ptr<Model>& model() const { return model_; }

 private:
  // What goes through the network together: whole devices.
  struct Piece {
    int64_t begin, length;  // images
    int64_t devices;
    bool with_device_0;
    bool last_of_micro_batch;
    bool last;      // of the batch
    double weight;  // its share of the batch
  };
  std::vector<Piece> pieces_of(int64_t batch) const;
  ModelOutput forward_piece(const at::Tensor& images, std::span<const RandomKey> keys, const Piece& piece,
                            bool with_statistics);
  void run_piece(const at::Tensor& images, const at::Tensor& labels, std::span<const RandomKey> keys,
                 const Piece& piece, StepResult& result);
  bool goes_on(const StepResult& result) const;

  std::shared_ptr<Model> model_;
  StepOptions options_;
  int64_t devices_set_ = 0;
  bool tracking_set_ = true;
};

// The model's outputs under the options' autocast, on the device of its weights, and their loss: the auxiliary head's
// is added with its weight.
ModelOutput forward(Model& model, const at::Tensor& images, bool bfloat16);
at::Tensor loss_of(const Model& model, const ModelOutput& output, const at::Tensor& labels, double label_smoothing);

}  // namespace frn::train
