#pragma once

#include <string>

namespace weft {

/// A page of its own, without anything from elsewhere, that shows what Explanation::to_json says: tools/explain_page.html
/// with it inside.
std::string explain_page(const std::string& json);

} // namespace weft
