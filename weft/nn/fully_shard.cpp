#include "weft/nn/fully_shard.h"

#include "weft/fully_sharded/parameter_slots.h"
#include "weft/fully_sharded/shard_dims.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/nn/parallel.h"
#include "weft/nn/registered_tensors.h"
#include "weft/nn/replace_parameters.h"

#include <mutex>

namespace weft::nn {

namespace {

using Module = torch::nn::Module;
using ModulePtr = std::shared_ptr<Module>;

/// Where a module keeps a parameter: registered under a name, and as a member.
struct Place {
  std::weak_ptr<Module> owner; // autograd may hold the unit for longer than the module lives
  std::string name;
  at::Tensor* member;
  size_t number;
  at::Tensor shown = {}; // the one that was put there last
};

class ModuleSlots : public ParameterSlots {
 public:
  ModuleSlots(std::vector<Place> places, std::vector<at::Tensor> leaves)
      : ParameterSlots(names_of(places), std::move(leaves)), places_(std::move(places)) {}

 private:
  static std::vector<Slot> names_of(const std::vector<Place>& places) {
    std::vector<Slot> result;
    for (const auto& place : places) {
      result.push_back({place.name, place.number});
    }
    return result;
  }
  at::Tensor get(size_t slot) const override {
    const auto& place = places_[slot];
    const auto owner = place.owner.lock();
    if (!owner) {
      return place.shown;
    }
    const auto* entry = registered_parameters(*owner).find(place.name);
    return entry == nullptr ? at::Tensor() : *entry;
  }
  void set(size_t slot, const at::Tensor& parameter) override {
    auto& place = places_[slot];
    place.shown = parameter;
    if (const auto owner = place.owner.lock()) {
      registered_parameters(*owner)[place.name] = parameter;
      if (place.member != nullptr) {
        *place.member = parameter;
      }
    }
  }

  std::vector<Place> places_;
};

/// Gathers the parameters of a module for its forward.
class GatheredForward : public AroundForward {
 public:
  GatheredForward(std::shared_ptr<Unit> unit, std::shared_ptr<ModuleSlots> slots)
      : unit_(std::move(unit)), slots_(std::move(slots)) {}
  ~GatheredForward() override {
    unit_->let_go();
  }
  GatheredForward(const GatheredForward&) = delete;
  GatheredForward& operator=(const GatheredForward&) = delete;

  void enter(c10::ArrayRef<at::Tensor> inputs) override {
    std::optional<bool> is_global;
    for (const auto& input : inputs) {
      if (input.defined()) {
        is_global = is_global.value_or(false) || unit_->is_global(input);
      }
    }
    slots_->adopt_replaced(*unit_);
    unit_->enter(is_global);
  }
  void leave(c10::ArrayRef<at::Tensor> outputs, bool has_failed) override {
    unit_->leave(outputs, has_failed);
  }
  const std::shared_ptr<Unit>& unit() const {
    return unit_;
  }

 private:
  std::shared_ptr<Unit> unit_;
  std::shared_ptr<ModuleSlots> slots_;
};

std::shared_ptr<Unit> unit_of(const Module& module) {
  const auto* boundaries = dynamic_cast<const Boundaries*>(&module);
  const auto* forward =
      boundaries == nullptr ? nullptr : dynamic_cast<const GatheredForward*>(boundaries->around_forward().get());
  return forward == nullptr ? nullptr : forward->unit();
}

/// The modules whose parameters a unit of `module` takes: itself, and those inside that belong to no unit yet.
std::vector<ModulePtr> own_modules(Module& module) {
  std::vector<ModulePtr> found;
  std::set<Module*> seen;
  const std::function<void(const ModulePtr&)> visit = [&](const ModulePtr& each) {
    if (seen.insert(each.get()).second && (each.get() == &module || unit_of(*each) == nullptr)) {
      found.push_back(each);
      for (const auto& child : each->children()) {
        visit(child);
      }
    }
  };
  visit(module.shared_from_this());
  return found;
}

/// The parameters that units have taken, and the shards that they have made of them. A module that is tied to one of another module
/// still has the parameter when the unit of that module has taken it.
class InUnits {
 public:
  static bool has(const at::Tensor& parameter) {
    const std::lock_guard lock(mutex());
    return all().contains(Weak(parameter.getIntrusivePtr()));
  }
  static void add(const std::vector<at::Tensor>& parameters) {
    const std::lock_guard lock(mutex());
    std::erase_if(all(), [](const Weak& each) { return each.expired(); });
    for (const auto& parameter : parameters) {
      all().insert(Weak(parameter.getIntrusivePtr()));
    }
  }

 private:
  using Weak = c10::weak_intrusive_ptr<c10::TensorImpl, c10::UndefinedTensorImpl>;

  // Ranks that are threads share it. Never destroyed: tensors may outlive static objects.
  static std::mutex& mutex() {
    static auto* const mutex = new std::mutex();
    return *mutex;
  }
  static std::set<Weak>& all() {
    static auto* const all = new std::set<Weak>();
    return *all;
  }
};

} // namespace

std::vector<std::shared_ptr<Unit>> units_of(Module& module) {
  std::vector<std::shared_ptr<Unit>> units;
  for (const auto& each : module.modules()) {
    if (auto unit = unit_of(*each); unit && std::find(units.begin(), units.end(), unit) == units.end()) {
      units.push_back(std::move(unit));
    }
  }
  return units;
}

std::shared_ptr<Unit> fully_shard(Module& module, const DeviceMesh& mesh, const FullyShardOptions& options) {
  auto* const boundaries = dynamic_cast<Boundaries*>(&module);
  TORCH_CHECK_VALUE(
      boundaries != nullptr, "[fully_shard] a module that is declared Parallel is required, but ", module.name(),
      " is not. Write weft::nn::Parallel<...> where it is a member: its parameters are gathered when its forward "
      "begins.");
  TORCH_CHECK_VALUE(
      unit_of(module) == nullptr, "[fully_shard] a module is fully sharded once, but this ", module.name(),
      " is already.");
  const auto dims = shard_dims(mesh, options.mesh_dim, options.replicate_dim);
  const auto inner = units_of(module);
  std::set<c10::TensorImpl*> left_out; // of other units, or ignored
  for (const auto& unit : inner) {
    for (const auto& leaf : unit->leaves()) {
      left_out.insert(leaf.unsafeGetTensorImpl());
    }
  }
  for (const auto& ignored : options.ignored_params) {
    left_out.insert(ignored.unsafeGetTensorImpl());
  }
  std::vector<at::Tensor> parameters;
  std::vector<Place> places;
  for (const auto& owner : own_modules(module)) {
    for (const auto& item : owner->named_parameters(/*recurse=*/false)) {
      const auto& parameter = item.value();
      if (!parameter.defined() || left_out.contains(parameter.unsafeGetTensorImpl())) {
        continue;
      }
      TORCH_CHECK_VALUE(
          !InUnits::has(parameter), "[fully_shard] a parameter is in one unit, but '", item.key(), "' of a ",
          owner->name(), " is in another already. Leave modules that share it to the call for a module around them.");
      const auto known = std::find_if(
          parameters.begin(), parameters.end(), [&](const at::Tensor& other) { return other.is_same(parameter); });
      places.push_back(
          {owner, item.key(), member_of(*owner, item.key()), static_cast<size_t>(known - parameters.begin())});
      if (known == parameters.end()) {
        parameters.push_back(parameter);
      }
    }
  }
  const bool is_offloaded = options.offload && mesh.device_type() != c10::kCPU;
  auto leaves = shard_parameters(parameters, mesh, dims.shard, is_offloaded ? std::optional(c10::kCPU) : std::nullopt);
  for (size_t k = 0; k < leaves.size(); ++k) {
    leaves[k].set_requires_grad(parameters[k].requires_grad());
  }
  const auto slots = std::make_shared<ModuleSlots>(std::move(places), parameters);
  auto unit = std::make_shared<Unit>(
      leaves,
      UnitOptions{
          .mesh_dim = dims.shard,
          .replicate_dim = dims.replicate,
          .reshard_after_forward = false,
          .gathered_dtype = options.param_dtype,
          .reduced_dtype = options.reduce_dtype,
          .offload = is_offloaded ? std::optional(Offload{.device = mesh.device_type()}) : std::nullopt},
      [slots](c10::ArrayRef<at::Tensor> shown) { slots->put(shown); });
  if (options.reshard_after_forward) {
    unit->set_reshard_after_forward(*options.reshard_after_forward);
  }
  if (options.reshard_to) {
    unit->set_reshard_to(*options.reshard_to);
  }
  // What may raise is above: the module is changed from here on.
  slots->put(leaves);
  InUnits::add(parameters);
  InUnits::add(leaves);
  const auto schedule = std::make_shared<Schedule>();
  unit->join(schedule);
  for (const auto& each : inner) {
    unit->add_inner(*each);
    each->join(schedule);
  }
  boundaries->set_around_forward(std::make_shared<GatheredForward>(unit, slots));
  // Elsewhere, as in a module inside that is called by itself, plain tensors may differ by rank.
  for (const auto& owner : own_modules(module)) {
    if (auto* each = dynamic_cast<Boundaries*>(owner.get())) {
      each->set_replicates_plain(each == boundaries);
    }
  }
  return unit;
}

} // namespace weft::nn
