#pragma once

#include "weft/comm/communicator.h"

namespace weft {

/// A world of any size in which only one rank runs: its tensors have the right shapes and meaningless values. For
/// planning and for counting communication, for example of 4,096 ranks on one core.
c10::intrusive_ptr<Communicator> make_fake_world(int64_t size, int64_t rank = 0);

/// Whether only one rank of the world runs: here, or over process groups of torch's backend "fake".
bool is_fake(const World& world);

/// A mesh for analysis, whose other ranks do not exist: "tp=4" or "dp=2,tp=2".
DeviceMesh analysis_mesh(const std::string& text);

} // namespace weft
