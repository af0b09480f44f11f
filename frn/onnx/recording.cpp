#include "frn/onnx/recording.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/function_schema.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/record_function.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <memory>
#include <unordered_map>

#include "frn/core/error.h"

namespace frn::onnx {
namespace {

using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

// One run of the network. LibTorch's callbacks have no state of their own, so the recorder of a thread is known to it.
class Recorder {
 public:
  explicit Recorder(const RecordOptions& options) : knows_(options.knows) {
    for (const auto& [name, tensor] : options.names) names_[tensor.unsafeGetTensorImpl()] = name;
  }
  Recorder(const Recorder&) = delete;
  Recorder& operator=(const Recorder&) = delete;

  Recording run(const Forward& forward, const at::Tensor& x) {
    recording_.input = add(x, /*from_input=*/true);
    const Watch watch(*this);
    for (const auto& output : forward(x)) recording_.outputs.push_back(id_of(output));
    return std::move(recording_);
  }

 private:
  // An operator that has begun and not ended.
  struct Open {
    Call call;
    ValueId first_new = 0;
    bool writes = false;  // into an argument
    bool from_input = false;
    bool known = false;
  };

  class Watch {
   public:
    explicit Watch(Recorder& recorder) {
      current() = &recorder;
      handle_ = at::addThreadLocalCallback(at::RecordFunctionCallback(&Recorder::begin, &Recorder::end)
                                               .needsInputs(true)
                                               .needsOutputs(true)
                                               .scopes({at::RecordScope::FUNCTION}));
    }
    ~Watch() {
      at::removeCallback(handle_);
      current() = nullptr;
    }
    Watch(const Watch&) = delete;
    Watch& operator=(const Watch&) = delete;

   private:
    at::CallbackHandle handle_;
  };

  static Recorder*& current() {
    thread_local Recorder* recorder = nullptr;
    return recorder;
  }

  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& function) {
    auto& self = *current();
    if (self.inside_ > 0 || (!self.open_.empty() && self.open_.back().known)) {
      ++self.inside_;
      return nullptr;
    }
    Open open;
    open.call.name = function.name();
    const std::string overload = function.overload_name();
    if (!overload.empty()) open.call.name += "." + overload;
    open.known = self.knows_(open.call.name);
    const auto schema = function.operator_schema();
    open.writes = schema && schema->is_mutable();
    for (const auto& input : function.inputs()) open.call.arguments.push_back(self.argument(input, open.from_input));
    open.first_new = static_cast<ValueId>(self.recording_.values.size());
    self.open_.push_back(std::move(open));
    return nullptr;
  }

  static void end(const at::RecordFunction& function, at::ObserverContext* /*context*/) {
    auto& self = *current();
    if (self.inside_ > 0) {
      --self.inside_;
      return;
    }
    auto open = std::move(self.open_.back());
    self.open_.pop_back();
    for (const auto& output : function.outputs()) {
      if (output.isTensor()) self.add_result(open, output.toTensor());
      if (!output.isTensorList()) continue;
      for (const at::Tensor& tensor : output.toTensorVector()) self.add_result(open, tensor);
    }
    if (!open.from_input) return;
    auto& calls = self.open_.empty() ? self.recording_.calls : self.open_.back().call.inner;
    calls.push_back(std::move(open.call));
  }

  Argument argument(const c10::IValue& value, bool& from_input) {
    Argument out;
    const auto take = [&](const at::Tensor& tensor) {
      out.holds_tensors = true;
      out.tensors.push_back(tensor.defined() ? id_of(tensor) : kNoValue);
      from_input = from_input || (tensor.defined() && recording_.values[out.tensors.back()].from_input);
    };
    if (value.isTensor()) {
      take(value.toTensor());
    } else if (value.isTensorList()) {
      for (const at::Tensor& tensor : value.toTensorVector()) take(tensor);
    } else {
      out.other = value;
    }
    return out;
  }

  // A tensor that nobody has made before our eyes is a constant.
  ValueId id_of(const at::Tensor& tensor) {
    const auto found = ids_.find(tensor.unsafeGetTensorImpl());
    return found != ids_.end() ? found->second : add(tensor, /*from_input=*/false);
  }

  ValueId add(const at::Tensor& tensor, bool from_input) {
    auto* const impl = tensor.unsafeGetTensorImpl();
    Value value{.from_input = from_input, .shape = tensor.sizes().vec()};
    if (!from_input) {
      value.constant = tensor;
      const auto name = names_.find(impl);
      if (name != names_.end()) value.name = name->second;
    }
    recording_.values.push_back(std::move(value));
    // Kept from being another tensor's address, but not from giving its memory back.
    seen_.emplace_back(tensor.getIntrusivePtr());
    return ids_[impl] = static_cast<ValueId>(recording_.values.size()) - 1;
  }

  void add_result(Open& open, const at::Tensor& tensor) {
    if (!tensor.defined()) return;
    const auto found = ids_.find(tensor.unsafeGetTensorImpl());
    // Known: what an inner call made, an argument as it is, or one that was written to.
    const bool known = found != ids_.end() && (!open.writes || found->second >= open.first_new);
    const ValueId id = known ? found->second : add(tensor, open.from_input);
    auto& value = recording_.values[static_cast<size_t>(id)];
    if (!known && open.from_input && found != ids_.end() && is_shared(tensor)) {
      value.trouble = open.call.name + " writes to memory that another tensor shares";
    }
    // What an inner call made gets the name of the outer one, which ends later.
    if (!open.from_input && id >= open.first_new) value.name = name_after(open.call);
    open.call.results.push_back(id);
  }

  bool is_shared(const at::Tensor& tensor) const {
    return std::any_of(seen_.begin(), seen_.end(), [&](const Weak& weak) {
      const auto other = weak.lock();
      return other && other.get() != tensor.unsafeGetTensorImpl() && other->has_storage() && tensor.has_storage() &&
             other->unsafe_storage().unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl();
    });
  }

  // "stem.conv.weight.standardise": of the first argument that has a name.
  std::string name_after(const Call& call) const {
    for (const auto& argument : call.arguments) {
      for (const auto id : argument.tensors) {
        if (id == kNoValue || recording_.values[static_cast<size_t>(id)].name.empty()) continue;
        const auto op = call.name.substr(call.name.find("::") + 2);
        return recording_.values[static_cast<size_t>(id)].name + "." + op.substr(0, op.find('.'));
      }
    }
    return {};
  }

  std::unordered_map<const c10::TensorImpl*, std::string> names_;
  std::unordered_map<const c10::TensorImpl*, ValueId> ids_;
  std::vector<Weak> seen_;
  std::vector<Open> open_;
  int inside_ = 0;  // how deep in operators that a known one called
  bool (*knows_)(const std::string&);
  Recording recording_;
};

// Lays the run with two samples beside the one with one.
class Comparison {
 public:
  Comparison(Recording& one, const Recording& two) : one_(one), two_(two), partner_(one.values.size(), kNoValue) {}

  void run() {
    pair(one_.input, two_.input);
    run(one_.calls, two_.calls);
    if (one_.outputs.size() != two_.outputs.size()) fail("gives another number of results");
    for (size_t i = 0; i < one_.outputs.size(); ++i) check_pair(one_.outputs[i], two_.outputs[i], "its result");
  }

 private:
  [[noreturn]] static void fail(const std::string& what) {
    throw Error("export", "a network must do the same for any number of samples but " + what +
                              " with 2 instead of 1; such a network cannot be exported");
  }

  void run(std::vector<Call>& one, const std::vector<Call>& two) {
    if (one.size() != two.size()) fail("runs other operators");
    for (size_t i = 0; i < one.size(); ++i) run(one[i], two[i]);
  }

  void run(Call& one, const Call& two) {
    if (one.name != two.name || one.arguments.size() != two.arguments.size()) fail("runs " + two.name);
    for (size_t i = 0; i < one.arguments.size(); ++i) {
      auto& argument = one.arguments[i];
      const auto& other = two.arguments[i];
      if (argument.tensors.size() != other.tensors.size()) fail(one.name + " takes other tensors");
      for (size_t t = 0; t < argument.tensors.size(); ++t) check_pair(argument.tensors[t], other.tensors[t], one.name);
      argument.other_of_two = other.other;
    }
    run(one.inner, two.inner);
    if (one.results.size() != two.results.size()) fail(one.name + " gives other results");
    for (size_t i = 0; i < one.results.size(); ++i) pair(one.results[i], two.results[i]);
  }

  void pair(ValueId one, ValueId two) {
    partner_[static_cast<size_t>(one)] = two;
    one_.values[static_cast<size_t>(one)].shape_of_two = two_.values[static_cast<size_t>(two)].shape;
  }

  void check_pair(ValueId one, ValueId two, const std::string& where) {
    if (one == kNoValue && two == kNoValue) return;
    if (one == kNoValue || two == kNoValue) fail(where + " takes other tensors");
    const auto& a = one_.values[static_cast<size_t>(one)];
    const auto& b = two_.values[static_cast<size_t>(two)];
    if (a.from_input != b.from_input) fail(where + " takes other tensors");
    if (a.from_input) {
      if (partner_[static_cast<size_t>(one)] != two) fail(where + " takes other tensors");
      return;
    }
    if (partner_[static_cast<size_t>(one)] == two) return;
    const bool same = a.constant.is_same(b.constant) ||
                      (a.constant.sizes() == b.constant.sizes() &&
                       a.constant.scalar_type() == b.constant.scalar_type() && at::equal(a.constant, b.constant));
    if (!same) fail(where + " takes other numbers");
    pair(one, two);
  }

  Recording& one_;
  const Recording& two_;
  std::vector<ValueId> partner_;
};

// Of a generator of its own: the caller's random numbers go on as if nothing had happened.
at::Tensor samples(int64_t count, std::vector<int64_t> shape) {
  shape.insert(shape.begin(), count);
  return at::randn(shape, at::make_generator<at::CPUGeneratorImpl>(static_cast<uint64_t>(count)));
}

}  // namespace

Recording record(const Forward& forward, const RecordOptions& options) {
  const c10::NoGradGuard no_grad;
  auto one = Recorder(options).run(forward, samples(1, options.sample));
  const auto two = Recorder(options).run(forward, samples(2, options.sample));
  Comparison(one, two).run();
  return one;
}

}  // namespace frn::onnx
