#pragma once

#include "weft/comm/world/named_groups.h"

namespace weft::testing {

/// While it exists, c10d's functional collectives that this rank calls go to the groups of a mesh, so that traced
/// redistributions can be run on ranks that are threads.
class FunctionalRanks {
 public:
  explicit FunctionalRanks(const DeviceMesh& mesh);

 private:
  NamedGroupScope scope_;
};

} // namespace weft::testing
