#include "frn/train/loop.h"

#include <ATen/ops/tensor.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>

#include "frn/core/error.h"
#include "frn/core/random.h"
#include "frn/nn/batch_norm.h"
#include "frn/train/adamw.h"
#include "frn/train/sgd.h"

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

data::OrderOptions order_options(const TrainSettings& settings, int64_t samples, const dist::Group& group) {
  return {.samples = samples,
          .batch_global = settings.batch_global(),
          .seed = static_cast<uint64_t>(settings.seed),
          .shuffle = true,
          .keep_last = settings.last_batch == LastBatch::kKeep,
          .divisor = settings.devices,
          .rank = group.rank(),
          .world = group.world(),
          .micro_batches = settings.accumulate};
}

int64_t or_else(int64_t value, int64_t otherwise) { return value > 0 ? value : std::max<int64_t>(1, otherwise); }

torch::nn::Module& on_device(torch::nn::Module& module, at::Device device) {
  module.to(device);
  return module;
}

ParameterGroups groups_of(const torch::nn::Module& module, const TrainSettings& settings) {
  auto groups = parameter_groups(module, {.norms = settings.decay_norms, .biases = settings.decay_biases});
  if (groups.decayed.empty() && groups.not_decayed.empty()) {
    throw Error("train", "the model must have parameters but has none; register its layers with register_module");
  }
  return groups;
}

// The moving averages in place of the weights, where there are some, while it lives.
class Averaged {
 public:
  explicit Averaged(std::optional<MovingAverage>& average) : average_(average) {
    if (average_) average_->swap();
  }
  ~Averaged() {
    if (average_) average_->swap();
  }
  Averaged(const Averaged&) = delete;
  Averaged& operator=(const Averaged&) = delete;

 private:
  std::optional<MovingAverage>& average_;
};

std::unique_ptr<Optimizer> make_optimizer(const torch::nn::Module& module, const TrainSettings& settings) {
  const auto groups = groups_of(module, settings);
  if (settings.optimizer == OptimizerKind::kAdamW) {
    return std::make_unique<AdamW>(groups, AdamW::Options{.beta1 = settings.adam_beta1,
                                                          .beta2 = settings.adam_beta2,
                                                          .eps = settings.adam_eps,
                                                          .weight_decay = settings.weight_decay});
  }
  return std::make_unique<Sgd>(
      groups, Sgd::Options{
                  .momentum = settings.momentum, .weight_decay = settings.weight_decay, .nesterov = settings.nesterov});
}

RunPlan plan_of(const LoopParts& parts, const data::BatchOrder& order) {
  RunPlan plan;
  plan.batches_per_epoch = order.batches_per_epoch();
  plan.schedule = schedule_of(parts.settings, plan.batches_per_epoch);
  plan.steps = plan.schedule.steps;
  plan.samples = parts.training_set->size();
  plan.validation_samples = parts.validation_set ? parts.validation_set->size() : 0;
  plan.classes = static_cast<int64_t>(parts.training_set->classes().size());
  for (const auto& parameter : parts.network.module().parameters()) plan.parameters += parameter.numel();
  plan.metrics = parts.task->metrics();
  plan.training_metrics = parts.task->training_metrics();
  return plan;
}

// The name of the first layer with statistics over all devices; none without one.
std::optional<std::string> synchronised_layer(torch::nn::Module& module) {
  for (const auto& layer : module.modules()) {
    const auto* const method = dynamic_cast<const BatchMethodImpl*>(layer.get());
    if (method != nullptr && method->sync()) return method->spec().to_string();
  }
  return std::nullopt;
}

}  // namespace

Loop::Loop(LoopParts parts)
    : parts_(std::move(parts)),
      settings_(parts_.settings),
      group_(parts_.group),
      module_(on_device(parts_.network.module(), group_->device())),
      order_(order_options(settings_, parts_.training_set->size(), *group_)),
      plan_(plan_of(parts_, order_)),
      gradients_(groups_of(module_, settings_)),
      optimizer_(parts_.optimizer ? std::move(parts_.optimizer) : make_optimizer(module_, settings_)),
      step_(parts_.network, parts_.task, step_options()),
      checkpoints_(parts_.folder.checkpoints(), settings_.checkpoints_kept),
      running_score_(parts_.task->make_training_score()) {
  state_.seed = static_cast<uint64_t>(settings_.seed);
  state_.samples = plan_.samples;
  state_.batch_global = settings_.batch_global();
  state_.classes = parts_.training_set->classes();
  state_.facts = parts_.training_set->facts();
  load_start();
  start_alike();
  if (!state_.running.score.empty()) running_score_->merge(state_.running.score);
  plan_.first_step = state_.step;
  reducer_ = group_->make_reducer(module_.parameters());
  statistics_ = module_.buffers();
  join_statistics();
}

// Layers with sync=true see what goes through the network at once, on all ranks.
void Loop::join_statistics() {
  const auto layer = synchronised_layer(module_);
  if (!layer) return;
  const int64_t images = settings_.batch_per_device * (settings_.devices / group_->world());
  if (settings_.images_at_once > 0 && settings_.images_at_once < images) {
    throw Error("train",
                fmt::format("images_at_once must be 0 or at least the {} images of a process's devices with {} but is "
                            "{}: statistics of all devices need all their images at once",
                            images, *layer, settings_.images_at_once));
  }
  if (group_->world() > 1) set_gather(module_, [group = group_](const at::Tensor& own) { return group->gather(own); });
}

StepOptions Loop::step_options() {
  StepOptions options{.batch_per_device = settings_.batch_per_device,
                      .devices = settings_.devices / group_->world(),
                      .images_at_once = settings_.images_at_once,
                      .bfloat16 = settings_.bfloat16(),
                      .before_last = [this] { reducer_->prepare(); },
                      .between_micro_batches = [this] { share_statistics(); },
                      .mean_weight = nullptr,
                      .always_backward = group_->world() > 1,
                      .holds_device_0 = group_->is_first()};
  if (group_->world() > 1 && !parts_.task->weighs_samples()) {
    options.mean_weight = [this](double own) {
      const auto sum = at::tensor({own}, at::kDouble);
      group_->all_reduce(sum);
      return sum.item<double>() / static_cast<double>(group_->world());
    };
  }
  return options;
}

// Gradients are the same on all ranks by now, so that all find the same.
bool Loop::clip_gradients() {
  const double bound = settings_.clip_gradient_norm;
  const double norm = last_gradient_norm_ = gradients_.norm();
  if (!std::isfinite(norm)) return false;
  if (bound > 0 && norm > bound) gradients_.scale(bound / norm);
  return true;
}

// By step and sample, so that it does not matter which device or process a sample falls to.
std::vector<RandomKey> Loop::random_keys(const data::Batch& batch) const {
  const auto step = RandomKey(state_.seed).with(kStepKey).with(static_cast<uint64_t>(state_.step));
  std::vector<RandomKey> keys;
  keys.reserve(batch.indices.size());
  for (const int64_t index : batch.indices) keys.push_back(step.with(static_cast<uint64_t>(index)));
  return keys;
}

StepResult Loop::gradient(const data::Batch& batch) {
  const auto keys = random_keys(batch);
  if (group_->world() == 1) return step_.run(batch, keys);
  group_->tell_step(state_.step + 1);
  try {
    return step_.run(batch, keys);
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw group_->failure("the reduction of gradients", error.what());
  }
}

void Loop::add_up(StepResult& result) {
  stops_ = *stop_;
  if (group_->world() == 1) return;
  // Losses that are shares of the ranks' mean weight already have their own weight in them.
  const bool are_shares = !parts_.task->weighs_samples();
  const double factor = are_shares ? 1 : result.weight;
  std::vector<double> numbers{result.loss * factor, result.weight, static_cast<double>(result.samples),
                              stops_ ? 1.0 : 0.0};
  for (const auto& part : result.losses) numbers.push_back(part.value * factor);
  numbers.insert(numbers.end(), result.score.begin(), result.score.end());
  const auto sums = at::tensor(numbers, at::kDouble);
  group_->all_reduce(sums);
  const double* value = sums.const_data_ptr<double>();
  const double whole = are_shares ? static_cast<double>(group_->world()) : value[1] > 0 ? value[1] : 1;
  result.loss = value[0] / whole;
  result.weight = value[1];
  result.samples = std::llround(value[2]);
  stops_ = value[3] > 0;
  value += 4;
  for (auto& part : result.losses) part.value = *value++ / whole;
  for (auto& number : result.score) number = *value++;
}

void Loop::remember(const StepResult& result) {
  auto& running = state_.running;
  running.loss_sum += result.loss * result.weight;
  running.weight += result.weight;
  running.samples += result.samples;
  if (running.loss_sums.empty()) {
    for (const auto& part : result.losses) running.loss_sums.push_back({part.key, 0});
  }
  for (size_t i = 0; i < result.losses.size(); ++i) {
    running.loss_sums.at(i).value += result.losses[i].value * result.weight;
  }
  running_score_->merge(result.score);
  images_since_log_ += result.samples;
}

bool Loop::update(const data::Batch& batch) {
  auto result = gradient(batch);
  add_up(result);
  last_loss_ = result.loss;
  if (!std::isfinite(result.loss) || !clip_gradients()) return false;
  optimizer_->step(plan_.schedule.rate(state_.step));
  gradients_.clear();
  share_statistics();
  if (average_) average_->update(state_.step);
  ++state_.step;
  remember(result);
  return true;
}

// Of a step: from asking for its batch to the end of its update.
void Loop::count_time(double seconds, double waited) {
  seconds_since_log_ += seconds;
  waited_since_log_ += waited;
  state_.seconds += seconds;
}

NamedValues Loop::running_values() const {
  const auto& running = state_.running;
  const double weight = running.weight > 0 ? running.weight : 1;
  NamedValues out{{"loss", running.loss_sum / weight}};
  for (const auto& part : running.loss_sums) out.push_back({part.key, part.value / weight});
  for (auto& value : named_values(plan_.training_metrics, *running_score_)) {
    if (value.key != "loss") out.push_back(std::move(value));
  }
  return out;
}

void Loop::log_training() {
  const TrainRow row{.step = state_.step,
                     .epoch = epoch(),
                     .values = running_values(),
                     .lr = plan_.schedule.rate(state_.step - 1),
                     .images_per_second = static_cast<double>(images_since_log_) / std::max(seconds_since_log_, 1e-9),
                     .wait_share = waited_since_log_ / std::max(seconds_since_log_, 1e-9),
                     .gradient_norm = last_gradient_norm_,
                     .samples = state_.running.samples};
  if (records_) records_->add(row);
  if (group_->is_first()) parts_.events.trained(row);
  state_.running = {};
  running_score_ = parts_.task->make_training_score();
  seconds_since_log_ = waited_since_log_ = 0;
  images_since_log_ = 0;
}

Evaluation Loop::evaluation() {
  const Averaged averaged(average_);
  return evaluate(parts_.network, *parts_.task, parts_.validation_set, parts_.validation_pipeline,
                  {.images_at_once = images_to_evaluate_at_once(settings_, group_->world()),
                   .workers = settings_.workers,
                   .channels_last = settings_.channels_last(),
                   .bfloat16 = settings_.bfloat16(),
                   .broken_limit = settings_.broken_limit,
                   .group = group_});
}

bool Loop::validation_is_due() const {
  return parts_.validation_set && due(or_else(settings_.validate_every, plan_.batches_per_epoch));
}

void Loop::validate() {
  const auto result = evaluation();
  tell_broken(result.broken, data::Split::kValidation);
  const ValidationRow row{.step = state_.step, .epoch = epoch(), .values = result.values, .samples = result.samples};
  if (records_) records_->add(row);
  if (group_->is_first()) parts_.events.validated(row);
}

void Loop::save() {
  if (!group_->is_first()) return;
  if (hold_ != nullptr) hold_->check_in_place();
  state_.running.score = running_score_->pack();
  Checkpoint checkpoint{state_, state_of(module_), optimizer_->state(), {}};
  if (average_) checkpoint.averages = average_->averages();
  checkpoints_.save(checkpoint);
}

void Loop::tell_broken(const std::vector<data::BrokenSample>& broken, data::Split split) {
  for (const auto& sample : broken) {
    if (records_) records_->add_broken(state_.step, sample, split);
    parts_.events.warned("cannot read " + sample.name + ": " + sample.reason);
  }
}

void Loop::save_if_possible() {
  try {
    save();
  } catch (const std::exception& error) {
    parts_.events.warned(error.what());
  }
}

// Where the run was ended by an error in the validation of the step that it goes on after.
void Loop::make_up_for_validation() {
  if (plan_.first_step == 0 || !validation_is_due()) return;
  const auto last = records_ ? records_->last_validation() : std::nullopt;
  const bool missing = !last || last->step < state_.step;
  const bool on_all =
      group_->world() == 1 ? missing : group_->broadcast_text(missing ? "missing" : "there") == "missing";
  if (on_all) validate();
}

// The log and the validation come before the checkpoint: a run killed between them goes on from the checkpoint before
// and writes their lines again.
void Loop::after_update(const data::Batch& batch) {
  if (due(or_else(settings_.log_every, plan_.steps / kLogsPerRun))) log_training();
  if (settings_.layers_every > 0 && due(settings_.layers_every)) {
    // On every rank: layers may wait for each other's statistics.
    const auto states = layer_states(step_, batch.images, random_keys(batch));
    if (records_) records_->add(state_.step, states);
  }
  if (validation_is_due()) {
    try {
      validate();
    } catch (...) {
      // What is wrong with the validation must not cost the training before it.
      save_if_possible();
      throw;
    }
  }
  if (due(or_else(settings_.checkpoint_every, plan_.batches_per_epoch))) save();
  if (group_->is_first()) parts_.events.stepped(state_.step);
}

std::string Loop::explain_divergence(const data::Batch& batch) {
  const auto when = fmt::format("at step {} (learning rate {:.4g})", state_.step + 1, plan_.schedule.rate(state_.step));
  const auto advice =
      "try a lower --lr-base, more --warmup-steps, --clip-gradient-norm, or a learned eps such as --norm "
      "'frn(eps=learned)+tlu'";
  if (std::isfinite(last_loss_)) {
    return fmt::format("the gradient of {} became {} {}, with a finite loss of {:.4g}; {}", gradients_.first_bad(),
                       std::abs(last_gradient_norm_), when, last_loss_, advice);
  }
  const auto layer = first_bad_layer(step_, batch.images, random_keys(batch));
  return fmt::format("the loss became {} {}; {}; {}", std::abs(last_loss_), when,  // NaN has no sign
                     layer ? "the first layer with a bad output is " + *layer
                           : "all layers' outputs are finite, the loss alone is not",
                     advice);
}

Outcome Loop::end(Status status, std::string message) {
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
  if (hold_ != nullptr) hold_->check_in_place();
  records_->end(outcome, parts_.folder.metrics());
  return outcome;
}

Outcome Loop::run(const std::atomic<bool>& stop, const RunHold* hold) {
  if (hold == nullptr) return loop(stop);
  hold_ = hold;
  hold->write(parts_.config_text);
  try {
    return loop(stop);
  } catch (...) {
    const auto files = records_ ? records_->files() : std::vector<std::filesystem::path>{};
    records_.reset();
    if (hold->fresh() && state_.step == 0) hold->discard(files);
    throw;
  }
}

Outcome Loop::loop(const std::atomic<bool>& stop) {
  stop_ = &stop;
  if (group_->is_first()) {
    records_.emplace(parts_.folder, plan_.first_step, settings_.seed, plan_.metrics);
    parts_.events.planned(plan_);
  }
  data::Loader loader(parts_.training_set, parts_.training_pipeline, order_,
                      {.workers = settings_.workers,
                       .first_batch = state_.step,
                       .channels_last = settings_.channels_last(),
                       .on_broken = data::OnBroken::kReplace,
                       .broken_limit = settings_.broken_limit,
                       .known_broken = records_ ? records_->known_broken() : std::vector<data::BrokenSample>{}});
  make_up_for_validation();
  module_.train();
  const int64_t last = settings_.max_steps > 0 ? std::min(settings_.max_steps, plan_.steps) : plan_.steps;
  const bool alone = group_->world() == 1;
  while (state_.step < last && !stops_ && !(alone && stop)) {
    const Stopwatch watch;
    const double waited_before = loader.seconds_waited();
    const auto batch = loader.next();
    tell_broken(loader.newly_broken(), data::Split::kTrain);
    if (!update(*batch)) return end(Status::kDiverged, explain_divergence(*batch));
    count_time(watch.seconds(), loader.seconds_waited() - waited_before);
    after_update(*batch);
  }
  group_->barrier();  // nobody leaves before rank 0 has written
  if (finished()) return end(Status::kFinished);
  save();
  return end(Status::kInterrupted);
}

}  // namespace frn::train
