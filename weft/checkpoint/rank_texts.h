#pragma once

#include "weft/core/device_mesh.h"

#include <ATen/core/Tensor.h>

#include <chrono>
#include <functional>
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
  /// The tensor of rank 0, in place of this rank's, of the same shape and dtype.
  void broadcast(const at::Tensor& tensor) const;
  /// The communicator's; of one rank none.
  std::chrono::milliseconds timeout() const;

 private:
  std::vector<int64_t> lengths_of(const std::string& text) const;

  DeviceMesh mesh_;
};

/// Runs `fn` and returns the text of its error, for other ranks to hear of; an empty one if there is none. Texts begin with [where].
std::string error_text_of(const char* where, const std::function<void()>& fn);

/// Raises the first of the texts that is not empty; they are those of all ranks, on all of them.
void raise_first_error(const std::vector<std::string>& errors);

} // namespace weft
