#pragma once

#include "weft/comm/collective.h"

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace weft {

class Communicator;
class DeviceMesh;

/// Counts the calls and bytes that one rank communicates while the log is attached, with any backend.
///
///   CommLog log(mesh);
///   ... run ...
///   std::cout << log.to_string();     // all_gather tp aten::linear 12 calls 3145728 bytes
///
/// Bytes are those that the rank receives from other ranks.
class CommLog {
 public:
  /// Is told of every call when it is made, by the thread that makes it.
  using Listener = std::function<void(Collective collective)>;

  /// Attaches to the communicator of the mesh's world until destroyed. Logs may be nested; each one counts every call.
  explicit CommLog(const DeviceMesh& mesh, Listener listener = {});
  ~CommLog();
  CommLog(const CommLog&) = delete;
  CommLog& operator=(const CommLog&) = delete;

  struct Row {
    Collective collective;
    std::string mesh_dims;     // "tp" or "dp,tp"
    std::string operator_name; // see OperatorScope; empty outside one
    int64_t calls = 0;
    int64_t bytes = 0;
  };
  /// One row per collective, mesh dims and operator, sorted by these.
  std::vector<Row> rows() const;
  int64_t calls() const;
  int64_t bytes() const;
  void clear();
  std::string to_string() const;

  void add(Collective collective, const std::string& mesh_dims, int64_t bytes);
  /// nullptr if there is none.
  const std::shared_ptr<const Listener>& listener() const {
    return listener_;
  }

 private:
  Communicator& communicator_;
  std::shared_ptr<const Listener> listener_;
  mutable std::mutex mutex_;
  std::map<std::tuple<Collective, std::string, std::string>, Row> rows_;
};

/// Sets the name of the operator for which this thread communicates, until the end of the scope.
class OperatorScope {
 public:
  explicit OperatorScope(const char* name);
  ~OperatorScope();
  OperatorScope(const OperatorScope&) = delete;
  OperatorScope& operator=(const OperatorScope&) = delete;

 private:
  const char* outer_;
};

} // namespace weft
