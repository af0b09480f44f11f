#include "frn/train/trainer.h"

#include <ATen/Context.h>
#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "frn/core/error.h"
#include "frn/core/random.h"
#include "frn/nn/batch_norm.h"
#include "frn/train/moving_average.h"
#include "frn/train/records.h"
#include "frn/train/run_hold.h"
#include "frn/train/sgd.h"
#include "frn/train/step.h"

namespace frn::train {
namespace {

constexpr uint64_t kStepKey = 1;  // streams of random numbers that follow from the seed
constexpr int64_t kLogsPerRun = 200;

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

data::OrderOptions order_options(const TrainConfig& config, int64_t samples, const dist::Group& group) {
  return {.samples = samples,
          .batch_global = config.batch_global(),
          .seed = static_cast<uint64_t>(config.seed),
          .shuffle = true,
          .keep_last = config.last_batch == "keep",
          .divisor = config.devices,
          .rank = group.rank(),
          .world = group.world(),
          .micro_batches = config.accumulate};
}

int64_t or_else(int64_t value, int64_t otherwise) { return value > 0 ? value : std::max<int64_t>(1, otherwise); }

std::shared_ptr<Model> on_device(std::shared_ptr<Model> model, at::Device device) {
  model->to(device);
  return model;
}

class Trainer {
 public:
  Trainer(const RunFolder& folder, const TrainConfig& config, const TrainerEvents& events,
          std::shared_ptr<dist::Group> group);

  // `hold`: on rank 0.
  Outcome run(const std::atomic<bool>& stop, const RunHold* hold);

 private:
  void check_image_size() const;
  Outcome loop(const std::atomic<bool>& stop);
  StepOptions step_options();
  void join_statistics();
  // As virtual devices share device 0's running statistics, so do ranks.
  void share_statistics() {
    if (group_->world() > 1) group_->broadcast(statistics_);
  }
  // On rank 0: its newest checkpoint, or the weights to start from.
  void load_start();
  // Rank 0's state on all ranks.
  void start_alike();
  void load(const CheckpointFolder::Found& found);
  void check_same_data(const TrainState& saved) const;
  bool finished() const { return state_.step >= plan_.steps; }
  // Whether something that is done every so many steps is due after the step just made.
  bool due(int64_t every) const { return finished() || state_.step % every == 0; }
  double epoch() const { return static_cast<double>(state_.step) / static_cast<double>(plan_.batches_per_epoch); }

  // Gives false, with the weights as they were, when the loss or a gradient is not finite on some rank.
  bool update(const data::Batch& batch);
  std::vector<RandomKey> dropout_keys(const data::Batch& batch) const;
  StepResult gradient(const data::Batch& batch);
  // Over all ranks: loss and score of the batch, and whether one of them was asked to stop.
  void add_up(StepResult& result);
  // Gives false when one is not finite.
  bool clip_gradients();
  void count_time(double seconds, double waited);
  void after_update(const data::Batch& batch);
  void log_training();
  void validate();
  void save();
  void tell_broken(const std::vector<data::BrokenSample>& broken);
  std::string explain_divergence(const data::Batch& batch);
  Outcome end(Status status, std::string message = "");

  TrainConfig config_;
  TrainerEvents events_;
  RunFolder folder_;
  std::shared_ptr<dist::Group> group_;
  data::DataName data_;
  std::shared_ptr<const data::Dataset> training_set_, validation_set_;
  data::BatchOrder order_;
  RunPlan plan_;
  std::shared_ptr<Model> model_;
  Sgd sgd_;
  std::optional<MovingAverage> average_;
  std::unique_ptr<dist::Reducer> reducer_;
  std::vector<at::Tensor> statistics_;  // buffers that training changes
  Step step_;
  CheckpointFolder checkpoints_;
  std::optional<Records> records_;  // rank 0's
  const std::atomic<bool>* stop_ = nullptr;
  bool stops_ = false;  // all ranks agreed to

  TrainState state_;
  bool bfloat16_, channels_last_;
  double seconds_since_log_ = 0, waited_since_log_ = 0;
  int64_t images_since_log_ = 0;
  double last_gradient_norm_ = 0;
  double last_loss_ = 0;
};

Trainer::Trainer(const RunFolder& folder, const TrainConfig& config, const TrainerEvents& events,
                 std::shared_ptr<dist::Group> group)
    : config_(config),
      events_(events),
      folder_(folder),
      group_(std::move(group)),
      data_(data::parse_data_name(config.data)),
      training_set_(data::open_dataset(data_, data::Split::kTrain)),
      validation_set_(data::open_dataset(data_, data::Split::kValidation)),
      order_(order_options(config, training_set_->size(), *group_)),
      model_(on_device(
          make_model(config, static_cast<int64_t>(training_set_->classes().size()), training_set_->facts().channels),
          group_->device())),
      sgd_(parameter_groups(*model_, {.norms = config.decay_norms, .biases = config.decay_biases}),
           {.momentum = config.momentum, .weight_decay = config.weight_decay}),
      step_(model_, step_options()),
      checkpoints_(folder.checkpoints(), config.checkpoints_kept),
      bfloat16_(config.autocast == "bfloat16"),
      channels_last_(config.layout == "channels-last") {
  plan_.batches_per_epoch = order_.batches_per_epoch();
  plan_.schedule = schedule_of(config, plan_.batches_per_epoch);
  plan_.steps = plan_.schedule.steps;
  plan_.samples = training_set_->size();
  plan_.validation_samples = validation_set_->size();
  plan_.classes = static_cast<int64_t>(training_set_->classes().size());
  for (const auto& parameter : model_->parameters()) plan_.parameters += parameter.numel();
  state_.seed = static_cast<uint64_t>(config.seed);
  state_.samples = plan_.samples;
  state_.batch_global = config.batch_global();
  state_.classes = training_set_->classes();
  state_.facts = training_set_->facts();
  check_image_size();
  load_start();
  start_alike();
  plan_.first_step = state_.step;
  reducer_ = group_->make_reducer(model_->parameters());
  statistics_ = model_->buffers();
  join_statistics();
}

// Layers with sync=true see what goes through the network at once, on all ranks.
void Trainer::join_statistics() {
  if (NormActSpec::parse(config_.norm).word("sync") != "true") return;
  const int64_t images = config_.batch_per_device * (config_.devices / group_->world());
  if (config_.images_at_once > 0 && config_.images_at_once < images) {
    throw Error("train",
                fmt::format("images_at_once must be 0 or at least the {} images of a process's devices with {} "
                            "but is {}: statistics of all devices need all their images at once",
                            images, config_.norm, config_.images_at_once));
  }
  if (group_->world() > 1) set_gather(*model_, [group = group_](const at::Tensor& own) { return group->gather(own); });
}

void Trainer::check_image_size() const {
  const int64_t size = evaluation_pipeline(config_, training_set_->facts()).size;
  if (size >= model_->smallest_input()) return;
  throw Error("train",
              fmt::format("image_size must be at least {} for {} but is {}; give --image-size or another model",
                          model_->smallest_input(), config_.model, size));
}

StepOptions Trainer::step_options() {
  return {.batch_per_device = config_.batch_per_device,
          .devices = config_.devices / group_->world(),
          .images_at_once = config_.images_at_once,
          .label_smoothing = config_.label_smoothing,
          .bfloat16 = config_.autocast == "bfloat16",
          .before_last = [this] { reducer_->prepare(); },
          .between_micro_batches = [this] { share_statistics(); },
          .always_backward = group_->world() > 1,
          .holds_device_0 = group_->is_first()};
}

// The file of --weights may be gone once a checkpoint holds what became of it.
void Trainer::load_start() {
  const auto found = group_->is_first() ? checkpoints_.newest() : std::nullopt;
  if (group_->is_first() && !found && !config_.weights.empty()) load_state(*model_, read_weights(config_.weights));
  if (config_.ema_decay > 0) average_.emplace(*model_, config_.ema_decay);
  if (found) load(*found);
}

void Trainer::start_alike() {
  if (group_->world() == 1) return;
  state_ = state_from_text(group_->broadcast_text(to_text(state_)));
  std::vector<at::Tensor> all;
  for (const auto& [name, tensor] : state_of(*model_)) all.push_back(tensor);
  for (const auto& [name, tensor] : sgd_.velocities()) all.push_back(tensor);
  if (average_) {
    for (const auto& [name, tensor] : average_->averages()) all.push_back(tensor);
  }
  const torch::NoGradGuard no_grad;
  group_->broadcast(all);
  group_->check_equal(all, "weights");
}

void Trainer::check_same_data(const TrainState& saved) const {
  if (saved.samples == state_.samples && saved.classes == state_.classes) return;
  throw Error("train",
              fmt::format("a resumed run must see the training set it began with, {} images of {} classes, but "
                          "{} holds {} of {}; give the same --data or start another run",
                          saved.samples, saved.classes.size(), config_.data, state_.samples, state_.classes.size()));
}

void Trainer::load(const CheckpointFolder::Found& found) {
  for (const auto& sentence : found.damaged) events_.warned(sentence + "; going on from " + found.path.string());
  check_same_data(found.checkpoint.state);
  load_state(*model_, found.checkpoint.model);
  sgd_.load_velocities(found.checkpoint.velocities);
  if (average_) average_->load(found.checkpoint.averages);
  state_ = found.checkpoint.state;
}

// Gradients are the same on all ranks by now, so that all find the same.
bool Trainer::clip_gradients() {
  const double bound = config_.clip_gradient_norm;
  const double norm = last_gradient_norm_ = sgd_.gradient_norm();
  if (!std::isfinite(norm)) return false;
  if (bound > 0 && norm > bound) sgd_.scale_gradients(bound / norm);
  return true;
}

// By step and sample, so that it does not matter which device or process a sample falls to.
std::vector<RandomKey> Trainer::dropout_keys(const data::Batch& batch) const {
  const auto step = RandomKey(state_.seed).with(kStepKey).with(static_cast<uint64_t>(state_.step));
  std::vector<RandomKey> keys;
  keys.reserve(batch.indices.size());
  for (const int64_t index : batch.indices) keys.push_back(step.with(static_cast<uint64_t>(index)));
  return keys;
}

StepResult Trainer::gradient(const data::Batch& batch) {
  const auto keys = dropout_keys(batch);
  if (group_->world() == 1) return step_.run(batch.images, batch.labels, keys);
  group_->tell_step(state_.step + 1);
  try {
    return step_.run(batch.images, batch.labels, keys);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw group_->failure("the reduction of gradients", error.what());
  }
}

void Trainer::add_up(StepResult& result) {
  stops_ = *stop_;
  if (group_->world() == 1) return;
  const auto count = static_cast<double>(result.score.samples);
  const auto sums = at::tensor({result.loss * count, count, static_cast<double>(result.score.first),
                                static_cast<double>(result.score.first_five), stops_ ? 1.0 : 0.0},
                               at::kDouble);
  group_->all_reduce(sums);
  const double* const values = sums.const_data_ptr<double>();
  result.score = {
      .samples = std::llround(values[1]), .first = std::llround(values[2]), .first_five = std::llround(values[3])};
  result.loss = values[0] / values[1];
  stops_ = values[4] > 0;
}

bool Trainer::update(const data::Batch& batch) {
  auto result = gradient(batch);
  add_up(result);
  last_loss_ = result.loss;
  if (!std::isfinite(result.loss) || !clip_gradients()) return false;
  sgd_.step(plan_.schedule.rate(state_.step));
  sgd_.clear_gradients();
  share_statistics();
  if (average_) average_->update(state_.step);
  ++state_.step;
  state_.running.loss_sum += result.loss * static_cast<double>(result.score.samples);
  state_.running.score.samples += result.score.samples;
  state_.running.score.first += result.score.first;
  state_.running.score.first_five += result.score.first_five;
  images_since_log_ += result.score.samples;
  return true;
}

// Of a step: from asking for its batch to the end of its update.
void Trainer::count_time(double seconds, double waited) {
  seconds_since_log_ += seconds;
  waited_since_log_ += waited;
  state_.seconds += seconds;
}

void Trainer::log_training() {
  const auto& score = state_.running.score;
  const TrainRow row{.step = state_.step,
                     .epoch = epoch(),
                     .loss = state_.running.loss_sum / static_cast<double>(std::max<int64_t>(1, score.samples)),
                     .precision_at_1 = score.precision_at_1(),
                     .recall_at_5 = score.recall_at_5(),
                     .lr = plan_.schedule.rate(state_.step - 1),
                     .images_per_second = static_cast<double>(images_since_log_) / std::max(seconds_since_log_, 1e-9),
                     .wait_share = waited_since_log_ / std::max(seconds_since_log_, 1e-9),
                     .gradient_norm = last_gradient_norm_,
                     .samples = score.samples};
  if (records_) records_->add(row);
  if (group_->is_first()) events_.trained(row);
  state_.running = {};
  seconds_since_log_ = waited_since_log_ = 0;
  images_since_log_ = 0;
}

void Trainer::validate() {
  if (average_) average_->swap();
  const auto result = evaluate(*model_, validation_set_, evaluation_pipeline(config_, training_set_->facts()),
                               {.images_at_once = images_to_evaluate_at_once(config_, group_->world()),
                                .workers = config_.workers,
                                .channels_last = channels_last_,
                                .bfloat16 = bfloat16_,
                                .broken_limit = config_.broken_limit,
                                .group = group_});
  if (average_) average_->swap();
  tell_broken(result.broken);
  const ValidationRow row{.step = state_.step,
                          .epoch = epoch(),
                          .loss = result.loss,
                          .precision_at_1 = result.score.precision_at_1(),
                          .recall_at_5 = result.score.recall_at_5(),
                          .samples = result.score.samples};
  if (records_) records_->add(row);
  if (group_->is_first()) events_.validated(row);
}

void Trainer::save() {
  if (!group_->is_first()) return;
  Checkpoint checkpoint{state_, state_of(*model_), sgd_.velocities(), {}};
  if (average_) checkpoint.averages = average_->averages();
  checkpoints_.save(checkpoint);
}

void Trainer::tell_broken(const std::vector<data::BrokenSample>& broken) {
  for (const auto& sample : broken) {
    if (records_) records_->add_broken(state_.step, sample);
    events_.warned("cannot read " + sample.name + ": " + sample.reason);
  }
}

// The log and the validation come before the checkpoint: a run killed between them goes on from the checkpoint before
// and writes their lines again.
void Trainer::after_update(const data::Batch& batch) {
  if (due(or_else(config_.log_every, plan_.steps / kLogsPerRun))) log_training();
  if (config_.layers_every > 0 && due(config_.layers_every)) {
    // On every rank: layers may wait for each other's statistics.
    const auto states = layer_states(step_, batch.images, dropout_keys(batch));
    if (records_) records_->add(state_.step, states);
  }
  if (due(or_else(config_.validate_every, plan_.batches_per_epoch))) validate();
  if (due(or_else(config_.checkpoint_every, plan_.batches_per_epoch))) save();
  if (group_->is_first()) events_.stepped(state_.step);
}

std::string Trainer::explain_divergence(const data::Batch& batch) {
  const auto when = fmt::format("at step {} (learning rate {:.4g})", state_.step + 1, plan_.schedule.rate(state_.step));
  const auto advice =
      "try a lower --lr-base, more --warmup-steps, --clip-gradient-norm, or a learned eps such as --norm "
      "'frn(eps=learned)+tlu'";
  if (std::isfinite(last_loss_)) {
    return fmt::format("the gradient of {} became {} {}, with a finite loss of {:.4g}; {}", sgd_.first_bad_gradient(),
                       std::abs(last_gradient_norm_), when, last_loss_, advice);
  }
  const auto layer = first_bad_layer(step_, batch.images, dropout_keys(batch));
  return fmt::format("the loss became {} {}; {}; {}", std::abs(last_loss_), when,  // NaN has no sign
                     layer ? "the first layer with a bad output is " + *layer
                           : "all layers' outputs are finite, the loss alone is not",
                     advice);
}

Outcome Trainer::end(Status status, std::string message) {
  Outcome outcome{.status = status,
                  .step = state_.step,
                  .train = std::nullopt,
                  .validation = std::nullopt,
                  .best = std::nullopt,
                  .seconds = state_.seconds,
                  .message = std::move(message)};
  if (!records_) return outcome;
  outcome.train = records_->train_at_the_end();
  outcome.validation = records_->last_validation();
  outcome.best = records_->best_validation();
  records_->end(outcome, folder_.metrics());
  return outcome;
}

Outcome Trainer::run(const std::atomic<bool>& stop, const RunHold* hold) {
  if (hold == nullptr) return loop(stop);
  hold->write(config_);
  try {
    return loop(stop);
  } catch (...) {
    const auto files = records_ ? records_->files() : std::vector<std::filesystem::path>{};
    records_.reset();
    if (hold->fresh() && state_.step == 0) hold->discard(files);
    throw;
  }
}

Outcome Trainer::loop(const std::atomic<bool>& stop) {
  stop_ = &stop;
  if (group_->is_first()) {
    records_.emplace(folder_, plan_.first_step, config_.seed);
    events_.planned(plan_);
  }
  data::Loader loader(training_set_, training_pipeline(config_, training_set_->facts()), order_,
                      {.workers = config_.workers,
                       .first_batch = state_.step,
                       .channels_last = channels_last_,
                       .on_broken = data::OnBroken::kReplace,
                       .broken_limit = config_.broken_limit});
  model_->train();
  const int64_t last = config_.max_steps > 0 ? std::min(config_.max_steps, plan_.steps) : plan_.steps;
  const bool alone = group_->world() == 1;
  while (state_.step < last && !stops_ && !(alone && stop)) {
    const Stopwatch watch;
    const double waited_before = loader.seconds_waited();
    const auto batch = loader.next();
    tell_broken(loader.newly_broken());
    if (!update(*batch)) return end(Status::kDiverged, explain_divergence(*batch));
    count_time(watch.seconds(), loader.seconds_waited() - waited_before);
    after_update(*batch);
  }
  group_->barrier();  // nobody leaves before rank 0 has written
  if (finished()) return end(Status::kFinished);
  save();
  return end(Status::kInterrupted);
}

}  // namespace

std::string_view status_name(Status status) {
  return status == Status::kFinished ? "finished" : status == Status::kDiverged ? "diverged" : "interrupted";
}

Outcome train(const RunFolder& folder, const TrainConfig& config, const TrainerEvents& events,
              const std::atomic<bool>& stop, std::shared_ptr<dist::Group> group) {
  check(config);
  if (config.devices % group->world() != 0) {
    throw Error("train", fmt::format("devices must be a multiple of the {} processes but is {}", group->world(),
                                     config.devices));
  }
  std::optional<RunHold> hold;
  if (group->is_first()) {
    hold.emplace(folder);
    if (hold->weakness()) events.warned(*hold->weakness());
  }
  return Trainer(folder, config, events, std::move(group)).run(stop, hold ? &*hold : nullptr);
}

}  // namespace frn::train
