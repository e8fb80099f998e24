#include "weft/comm/communicator.h"

#include "weft/comm/wait_scope.h"

#include <c10/util/Exception.h>

#include <charconv>
#include <cstdlib>
#include <string_view>

namespace weft {

Communicator& Communicator::of(const DeviceMesh& mesh) {
  auto* communicator = dynamic_cast<Communicator*>(mesh.world().get());
  TORCH_CHECK_VALUE(
      communicator != nullptr, "[comm] communication needs a mesh whose ranks can talk, but got ", mesh,
      ", which is for planning only. Make the mesh with init_device_mesh.");
  return *communicator;
}

std::shared_ptr<Group> Communicator::group(const DeviceMesh& mesh, c10::IntArrayRef mesh_dims) {
  auto ranks = mesh.ranks_along(mesh_dims);
  auto label = mesh.dims_text(mesh_dims);
  const std::lock_guard lock(mutex_);
  const GroupKey key{ranks, label, mesh.device_type()};
  if (const auto found = groups_.find(key); found != groups_.end()) {
    return found->second;
  }
  const auto position = std::find(ranks.begin(), ranks.end(), rank()) - ranks.begin();
  const WaitScope wait_scope; // the members meet
  return groups_[key] = make_group(std::move(label), std::move(ranks), position, mesh.device_type());
}

size_t Communicator::group_count() const {
  const std::lock_guard lock(mutex_);
  return groups_.size();
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
  const std::lock_guard lock(log_mutex_);
  for (auto* log : logs_) {
    log->add(call.collective, group.label(), received_bytes);
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
