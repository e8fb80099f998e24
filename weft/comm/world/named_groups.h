#pragma once

#include "weft/comm/group.h"
#include "weft/core/device_mesh.h"

#include <functional>
#include <memory>
#include <string_view>

namespace weft {

/// Groups that operators refer to by name. A name is looked up in this thread's scopes, innermost first, and then among
/// the process groups registered with c10d.
///
///   const NamedGroupScope scope(groups_of(mesh));
///   auto group = named_group("dp,tp", c10::kCPU);

/// The group of a name, or nullptr.
using FindGroup = std::function<std::shared_ptr<Group>(const std::string& name)>;

/// The groups of a mesh by the names of mesh dims: "tp", "dp,tp". Any other name is unknown.
FindGroup groups_of(const DeviceMesh& mesh);

class NamedGroupScope {
 public:
  explicit NamedGroupScope(FindGroup find);
  ~NamedGroupScope();
  NamedGroupScope(const NamedGroupScope&) = delete;
  NamedGroupScope& operator=(const NamedGroupScope&) = delete;

  /// The group of this name in this thread's innermost scope that knows the name, or nullptr.
  static std::shared_ptr<Group> find(const std::string& name);

 private:
  FindGroup find_;
  NamedGroupScope* outer_;
};

/// Raises if the name is unknown. A process group of c10d is wrapped at the first call, in which its members meet, and
/// the wrapper is kept as long as c10d has the group.
std::shared_ptr<Group> named_group(const std::string& name, c10::DeviceType device_type);
/// The mesh of one dim of a process group of c10d; raises as named_group does.
DeviceMesh named_mesh(const std::string& name, c10::DeviceType device_type);

/// This member's index and the number of members.
struct GroupPlace {
  int64_t rank;
  int64_t size;
};
/// As named_group, but does not wrap a process group of c10d.
GroupPlace named_place(const std::string& name);
/// Whether there is a group of this name whose members can send each other tensors on such devices. Those of c10d's
/// backend "fake" cannot.
bool named_group_exists(const std::string& name, c10::DeviceType device_type);

} // namespace weft
