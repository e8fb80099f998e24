#include "weft/comm/communicator.h"

#include "weft/comm/wait_scope.h"

#include <c10/util/Exception.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace weft {

namespace {

std::mutex& hooks_mutex() {
  static auto* mutex = new std::mutex();
  return *mutex;
}

std::vector<void (*)()>& hooks() {
  static auto* all = new std::vector<void (*)()>();
  return *all;
}

} // namespace

void on_many_groups(void (*drop)()) {
  const std::lock_guard lock(hooks_mutex());
  hooks().push_back(drop);
}

GroupDescription describe_group(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims) {
  MeshDims ordered(mesh_dims.begin(), mesh_dims.end());
  std::sort(ordered.begin(), ordered.end());
  GroupDescription description{
      .label = mesh.dims_text(ordered),
      .ranks = mesh.ranks_along(ordered),
      .rank = 0,
      .device_type = mesh.device_type(),
      .identity = {}};
  const auto& ranks = description.ranks;
  description.rank = std::find(ranks.begin(), ranks.end(), mesh.world()->rank()) - ranks.begin();
  // Meshes with the same text are one mesh. The groups along one of its dims differ in their first rank, because every
  // rank is in exactly one of them.
  description.identity = description.label + " from rank " + std::to_string(ranks[0]) + " of " + mesh.to_string();
  return description;
}

Communicator& Communicator::of(const DeviceMesh& mesh) {
  auto* communicator = dynamic_cast<Communicator*>(mesh.world().get());
  TORCH_CHECK_VALUE(
      communicator != nullptr, "[comm] communication needs a mesh whose ranks can communicate, but got ", mesh,
      ", which is for planning only. Make the mesh with init_device_mesh.");
  return *communicator;
}

std::shared_ptr<Group> Communicator::group(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims) {
  if (const auto kept = mesh.kept_for(mesh_dims)) {
    return std::static_pointer_cast<Group>(kept);
  }
  auto group = find_or_make(describe_group(mesh, mesh_dims));
  mesh.keep_for(mesh_dims, group);
  return group;
}

uint32_t Communicator::number_subject(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims) {
  const auto identity = describe_group(mesh, mesh_dims).identity;
  const std::lock_guard lock(mutex_);
  return ++subjects_[identity];
}

std::shared_ptr<Group> Communicator::find_or_make(GroupDescription description) {
  drop_cached_groups();
  const auto identity = description.identity;
  const WaitScope wait_scope; // making a group waits for the other members
  if (auto found = find_or_take(identity)) {
    return found;
  }
  std::shared_ptr<Group> group;
  const auto hand_over = [&] {
    const std::lock_guard lock(mutex_);
    groups_[identity] = {.group = group};
    made_.notify_all();
  };
  try {
    group = make_group(std::move(description)); // without the lock: other threads may be making other groups
  } catch (...) {
    hand_over();
    throw;
  }
  hand_over();
  return group;
}

std::shared_ptr<Group> Communicator::find_or_take(const std::string& identity) {
  std::unique_lock lock(mutex_);
  made_.wait(lock, [&] {
    return !groups_[identity].is_being_made;
  }); // the thread that makes the group ends within the timeout
  auto& slot = groups_[identity];
  auto group = slot.group.lock();
  slot.is_being_made = group == nullptr;
  return group;
}

void Communicator::drop_cached_groups() {
  if (forget_dead_groups() < most_groups_) {
    return;
  }
  std::vector<void (*)()> all;
  {
    const std::lock_guard lock(hooks_mutex());
    all = hooks();
  }
  for (const auto drop : all) {
    drop();
  }
  most_groups_ =
      std::max(kManyGroups, 2 * forget_dead_groups()); // doubled, so that many live groups are not searched often
}

size_t Communicator::forget_dead_groups() {
  const std::lock_guard lock(mutex_);
  std::erase_if(groups_, [](const auto& entry) { return entry.second.group.expired() && !entry.second.is_being_made; });
  return groups_.size();
}

size_t Communicator::group_count() const {
  const std::lock_guard lock(mutex_);
  return std::count_if(groups_.begin(), groups_.end(), [](const auto& entry) { return !entry.second.group.expired(); });
}

void Communicator::attach(CommLog* log) {
  const std::lock_guard lock(log_mutex_);
  logs_.push_back(log);
  logging_ = true;
}

void Communicator::detach(CommLog* log) {
  const std::lock_guard lock(log_mutex_);
  std::erase(logs_, log);
  logging_ = !logs_.empty();
}

void Communicator::log_call(const Call& call, const Group& group, int64_t received_bytes) {
  if (!logging_.load(std::memory_order_relaxed)) {
    return;
  }
  std::vector<std::shared_ptr<const CommLog::Listener>> listeners;
  {
    const std::lock_guard lock(log_mutex_);
    for (auto* log : logs_) {
      log->add(call.collective, group.label(), received_bytes);
      if (log->listener()) {
        listeners.push_back(log->listener());
      }
    }
  }
  // Called without the lock: a listener may take the lock of an interpreter, whose owner may wait for this one.
  for (const auto& listener : listeners) {
    (*listener)(call.collective);
  }
}

std::chrono::milliseconds default_timeout() {
  const char* text = std::getenv("WEFT_TIMEOUT_SECONDS");
  if (text == nullptr) {
    return std::chrono::minutes(10);
  }
  const std::string_view view(text);
  int64_t seconds = 0;
  const auto [end, error] = std::from_chars(view.data(), view.data() + view.size(), seconds);
  TORCH_CHECK_VALUE(
      error == std::errc() && end == view.data() + view.size() && seconds > 0,
      "[comm] WEFT_TIMEOUT_SECONDS must be a positive number of seconds, but got '", text, "'.");
  return std::chrono::seconds(seconds);
}

} // namespace weft
