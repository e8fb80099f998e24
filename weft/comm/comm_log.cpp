#include "weft/comm/comm_log.h"

#include "weft/comm/communicator.h"

#include <numeric>
#include <sstream>

namespace weft {

namespace {

thread_local const char* current_operator = "";

} // namespace

OperatorScope::OperatorScope(const char* name) : outer_(std::exchange(current_operator, name)) {}

OperatorScope::~OperatorScope() {
  current_operator = outer_;
}

CommLog::CommLog(const DeviceMesh& mesh, Listener listener)
    : communicator_(Communicator::of(mesh)),
      listener_(listener ? std::make_shared<const Listener>(std::move(listener)) : nullptr) {
  communicator_.attach(this);
}

CommLog::~CommLog() {
  communicator_.detach(this);
}

void CommLog::add(Collective collective, const std::string& mesh_dims, int64_t bytes) {
  const std::lock_guard lock(mutex_);
  auto& row = rows_[{collective, mesh_dims, current_operator}];
  row.collective = collective;
  row.mesh_dims = mesh_dims;
  row.operator_name = current_operator;
  row.calls += 1;
  row.bytes += bytes;
}

std::vector<CommLog::Row> CommLog::rows() const {
  const std::lock_guard lock(mutex_);
  std::vector<Row> result;
  for (const auto& [key, row] : rows_) {
    result.push_back(row);
  }
  return result;
}

int64_t CommLog::calls() const {
  int64_t total = 0;
  for (const auto& row : rows()) {
    total += row.calls;
  }
  return total;
}

int64_t CommLog::bytes() const {
  int64_t total = 0;
  for (const auto& row : rows()) {
    total += row.bytes;
  }
  return total;
}

void CommLog::clear() {
  const std::lock_guard lock(mutex_);
  rows_.clear();
}

std::string CommLog::to_string() const {
  std::ostringstream out;
  for (const auto& row : rows()) {
    out << weft::to_string(row.collective) << " " << row.mesh_dims << " "
        << (row.operator_name.empty() ? "-" : row.operator_name) << " " << row.calls << " calls " << row.bytes
        << " bytes\n";
  }
  return out.str();
}

} // namespace weft
