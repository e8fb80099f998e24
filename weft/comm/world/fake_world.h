#pragma once

#include "weft/comm/communicator.h"

namespace weft {

/// A world of any size with no peers: one rank's program runs alone, with the shapes it would have and values that mean
/// nothing. For planning and for counting communication: 4,096 ranks on one core.
c10::intrusive_ptr<Communicator> make_fake_world(int64_t size, int64_t rank = 0);

bool is_fake(const World& world);

/// A mesh for analysis, of ranks that do not exist: "tp=4" or "dp=2,tp=2".
DeviceMesh analysis_mesh(const std::string& text);

} // namespace weft
