#include "weft/core/same_locals.h"

#include "weft/core/layout_algebra.h"

namespace weft {

bool have_same_locals(const DeviceMesh& mesh, const Layout& a, const Layout& b) {
  if (mesh.size() == 1 || a == b) {
    return true;
  }
  const auto is_of_one_rank = [&](int64_t m) { return mesh.size(m) == 1; };
  return replicated_where(a, is_of_one_rank) == replicated_where(b, is_of_one_rank);
}

} // namespace weft
