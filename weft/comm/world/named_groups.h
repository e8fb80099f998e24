#pragma once

#include "weft/comm/group.h"
#include "weft/core/device_mesh.h"

#include <functional>
#include <memory>
#include <string_view>

namespace weft {

/// The groups that operators name. What a name means on this thread is said by the innermost scope that knows it; else it
/// is the process group that c10d has registered under it.
///
///   const NamedGroupScope scope(groups_of(mesh));
///   auto group = named_group("dp,tp", c10::kCPU);

/// The group of a name, nullptr where there is none.
using FindGroup = std::function<std::shared_ptr<Group>(const std::string& name)>;

/// Names are those of mesh dims: "tp", "dp,tp". A name with any other word in it is unknown.
FindGroup groups_of(const DeviceMesh& mesh);

class NamedGroupScope {
 public:
  explicit NamedGroupScope(FindGroup find);
  ~NamedGroupScope();
  NamedGroupScope(const NamedGroupScope&) = delete;
  NamedGroupScope& operator=(const NamedGroupScope&) = delete;

  /// The group of this name, of this thread's innermost scope that knows it; nullptr where none does.
  static std::shared_ptr<Group> find(const std::string& name);

 private:
  FindGroup find_;
  NamedGroupScope* outer_;
};

/// Raises where nobody knows the name. A process group of c10d is wrapped when it is first asked for, in which its members
/// meet, and kept for as long as c10d has it.
std::shared_ptr<Group> named_group(const std::string& name, c10::DeviceType device_type);

/// This member's number and how many there are.
struct GroupPlace {
  int64_t rank;
  int64_t size;
};
/// As named_group; a process group of c10d is not wrapped for it.
GroupPlace named_place(const std::string& name);

} // namespace weft
