// Batch norm, and what all methods with statistics over the batch share: running statistics, their mode, virtual
// devices.
#pragma once

#include "frn/nn/norm_act.h"
#include "frn/nn/sync_batch_norm.h"

namespace frn {

// In training y comes from the batch's statistics, which also feed the running ones; in eval mode from the running
// ones:
//   y = weight*(x - running_mean)/sqrt(running_var + eps) + bias
// Buffers and their update are PyTorch's: momentum is the newest batch's share, running_var averages unbiased
// variances.
class BatchMethodImpl : public NormActImpl {
 public:
  BatchMethodImpl(const NormActSpec& spec, int64_t channels);

  // Trains as if so many devices each held an equal part of the batch (samples in order): each part is normalised by
  // its own statistics, and the running ones follow part 0. A batch that does not divide is an error. Not in the state
  // dict.
  void set_virtual_devices(int64_t count);
  int64_t virtual_devices() const { return virtual_devices_; }

  // With sync=true statistics are those of the whole batch, whatever the virtual devices, and once a gather is set,
  // those of all processes' batches. Not in the state dict.
  bool sync() const { return sync_; }
  void set_gather(GatherRanks gather) { gather_ = std::move(gather); }

  // Whether training changes the running statistics and counts the step; for the parts of a batch that comes in several
  // calls, of which one holds device 0. Not in the state dict.
  void set_tracks_statistics(bool tracks) { tracks_statistics_ = tracks; }

  // As PyTorch's modules in Python do, and unlike those in C++, a change of type leaves the step counter whole.
  using NormActImpl::to;
  void to(torch::Device device, torch::Dtype dtype, bool non_blocking = false) override;
  void to(torch::Dtype dtype, bool non_blocking = false) override;

  at::Tensor running_mean;         // [channels], starts at 0
  at::Tensor running_var;          // [channels], 1
  at::Tensor num_batches_tracked;  // int64: training steps done

 protected:
  at::Tensor run(const at::Tensor& x) final;

  // y of one part in training, without the activation. The running statistics are as before the step; only when
  // `updates` may they change, and parts are called in reverse order, so that no later one sees the change.
  virtual at::Tensor normalise(const at::Tensor& x, bool updates) = 0;

  // z of a batch with one sample per device, all at once; undefined when the method has no such way.
  virtual at::Tensor forward_sample_by_sample(const at::Tensor& /*x*/) { return {}; }

  at::Tensor batch_norm(const at::Tensor& x, const at::Tensor& scale, const at::Tensor& shift, bool training,
                        const at::Tensor& mean, const at::Tensor& var) const;
  void copy_settings(const NormActImpl& other) override;

  double eps_;
  double momentum_;
  bool tracks_statistics_ = true;
  GatherRanks gather_;  // of a layer with sync=true among several processes; else empty

  int64_t parts() const { return sync_ ? 1 : virtual_devices_; }

 private:
  void check_batch(const at::Tensor& x) const;
  at::Tensor train_step(const at::Tensor& x);

  int64_t virtual_devices_ = 1;
  bool sync_;
};

// Computes what torch.nn.BatchNorm1d, 2d and 3d do; with sync=true, torch.nn.SyncBatchNorm.
class BatchNormImpl : public BatchMethodImpl {
 public:
  using BatchMethodImpl::BatchMethodImpl;

 protected:
  at::Tensor normalise(const at::Tensor& x, bool updates) override;
  // Not where statistics come from other processes, nor for the parts of virtual devices, which stand for memory that
  // this machine does not have to save.
  bool can_compute_again() const override { return parts() == 1 && !gather_; }
  std::vector<at::Tensor> run_into(const at::Tensor& x, const std::vector<Convolution>& readers) override;
  // Statistics of one sample are those of instance norm, whose fused kernel takes the whole batch.
  at::Tensor forward_sample_by_sample(const at::Tensor& x) override;
};

// Sets the virtual devices of every batch method in a model; per-sample methods need none.
void set_virtual_devices(torch::nn::Module& model, int64_t count);
// Sets whether every batch method of a model changes its running statistics while training.
void set_tracks_statistics(torch::nn::Module& model, bool tracks);
// Joins the layers with sync=true to those of the other processes.
void set_gather(torch::nn::Module& model, const GatherRanks& gather);

}  // namespace frn
