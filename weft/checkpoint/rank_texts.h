#pragma once

#include "weft/core/device_mesh.h"

#include <string>
#include <vector>

namespace weft {

/// Texts of any length between all ranks of a mesh of one dim. Without a mesh there is one rank. Every rank makes the same calls;
/// each is an error within the communicator's timeout if a rank does not.
class RankTexts {
 public:
  explicit RankTexts(DeviceMesh mesh) : mesh_(std::move(mesh)) {}

  int64_t rank() const {
    return mesh_.defined() ? mesh_.rank(0) : 0;
  }
  int64_t size() const {
    return mesh_.defined() ? mesh_.size() : 1;
  }

  /// The texts of all ranks, in order, on every rank.
  std::vector<std::string> all_gather(const std::string& text) const;
  /// The texts of all ranks on rank 0; on the others their own alone.
  std::vector<std::string> gather(const std::string& text) const;
  /// The text of rank 0.
  std::string broadcast(const std::string& text) const;

 private:
  std::vector<int64_t> lengths_of(const std::string& text) const;

  DeviceMesh mesh_;
};

} // namespace weft
