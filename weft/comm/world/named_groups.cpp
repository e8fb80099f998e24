#include "weft/comm/world/named_groups.h"

#include "weft/comm/world/c10d_world.h"

#include <c10/util/StringUtil.h>
#include <torch/csrc/distributed/c10d/GroupRegistry.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <map>
#include <mutex>

namespace weft {

namespace {

using ProcessGroupPtr = c10::intrusive_ptr<c10d::ProcessGroup>;

thread_local NamedGroupScope* current_scope = nullptr;

ProcessGroupPtr resolve(const std::string& name) {
  try {
    return c10d::resolve_process_group(name);
  } catch (const std::exception&) {
    TORCH_CHECK_VALUE(
        false, "[named_group] the name of a group is required, but got '", name,
        "', which is neither of mesh dims of the program that runs nor of a process group of c10d.");
  }
}

/// Makes a valid mesh dim name: letters, digits and underscores.
std::string label_of(const std::string& name) {
  auto label = "group_" + name;
  std::replace_if(label.begin(), label.end(), [](unsigned char c) { return std::isalnum(c) == 0; }, '_');
  return label;
}

/// A mesh of one dim over the members of a process group.
DeviceMesh wrap(const std::string& name, c10d::ProcessGroup& process_group, c10::DeviceType device_type) {
  const auto size = static_cast<int64_t>(process_group.getSize());
  const auto store = process_group.getStore();
  TORCH_CHECK_VALUE(
      store != nullptr, "[named_group] a process group with a store is required, but '", name, "' has none.");
  const auto own_store = c10::make_intrusive<c10d::PrefixStore>("weft/named", store);
  const auto world = join_c10d_world(own_store, process_group.getRank(), size, default_timeout());
  DeviceMesh mesh(world, device_type, {size}, {label_of(name)});
  const auto backend = process_group.getBackend(device_type);
  // Over gloo, Weft makes one connection per direction itself, because sends and receives on one connection block each
  // other.
  if (backend->getBackendName() != "gloo") {
    adopt_group(mesh, 0, {backend, mesh.ranks_along(0)});
  }
  return mesh;
}

/// The process groups that operators have named. An entry of a group that c10d has released is removed at the next
/// lookup.
class WrappedGroups {
 public:
  DeviceMesh mesh(const std::string& name, c10::DeviceType device_type) {
    const auto process_group = resolve(name);
    const std::lock_guard lock(mutex_);
    std::erase_if(entries_, [](const auto& entry) { return entry.second.process_group.expired(); });
    const Key key{name, device_type};
    auto found = entries_.find(key);
    if (found == entries_.end() || found->second.process_group.lock() != process_group) {
      Entry entry{c10::weak_intrusive_ptr<c10d::ProcessGroup>(process_group), wrap(name, *process_group, device_type)};
      found = entries_.insert_or_assign(key, std::move(entry)).first;
    }
    return found->second.mesh;
  }

 private:
  using Key = std::pair<std::string, c10::DeviceType>;
  struct Entry {
    c10::weak_intrusive_ptr<c10d::ProcessGroup> process_group;
    DeviceMesh mesh;
  };

  std::mutex mutex_;
  std::map<Key, Entry> entries_;
};

WrappedGroups& wrapped_groups() {
  static auto* groups = new WrappedGroups(); // never destroyed: connections must not be closed while the process exits
  return *groups;
}

} // namespace

FindGroup groups_of(const DeviceMesh& mesh) {
  return [mesh](const std::string& name) -> std::shared_ptr<Group> {
    std::vector<std::string> words;
    for (const auto word : c10::split(name, ',')) {
      words.emplace_back(word);
      if (std::find(mesh.names().begin(), mesh.names().end(), words.back()) == mesh.names().end()) {
        return nullptr;
      }
    }
    return Communicator::of(mesh).group(mesh, mesh.dims(words));
  };
}

NamedGroupScope::NamedGroupScope(FindGroup find) : find_(std::move(find)), outer_(current_scope) {
  current_scope = this;
}

NamedGroupScope::~NamedGroupScope() {
  current_scope = outer_;
}

std::shared_ptr<Group> NamedGroupScope::find(const std::string& name) {
  for (const auto* scope = current_scope; scope != nullptr; scope = scope->outer_) {
    if (auto group = scope->find_(name)) {
      return group;
    }
  }
  return nullptr;
}

std::shared_ptr<Group> named_group(const std::string& name, c10::DeviceType device_type) {
  if (auto group = NamedGroupScope::find(name)) {
    return group;
  }
  struct Held {
    DeviceMesh mesh; // keeps the group's world alive
    std::shared_ptr<Group> group;
  };
  const auto mesh = wrapped_groups().mesh(name, device_type);
  const auto held = std::make_shared<Held>(Held{mesh, Communicator::of(mesh).group(mesh, {0})});
  return {held, held->group.get()};
}

DeviceMesh named_mesh(const std::string& name, c10::DeviceType device_type) {
  return wrapped_groups().mesh(name, device_type);
}

GroupPlace named_place(const std::string& name) {
  if (const auto group = NamedGroupScope::find(name)) {
    return {group->rank(), group->size()};
  }
  const auto process_group = resolve(name);
  return {process_group->getRank(), process_group->getSize()};
}

bool named_group_exists(const std::string& name, c10::DeviceType device_type) {
  if (NamedGroupScope::find(name) != nullptr) {
    return true;
  }
  try {
    return c10d::resolve_process_group(name)->getBackend(device_type)->getBackendName() != "fake";
  } catch (const std::exception&) {
    return false; // c10d has no such group, or the group has no backend for the device
  }
}

} // namespace weft
