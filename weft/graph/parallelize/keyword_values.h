#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// The values that modules were called with by keyword: the module's path, the keyword, and the name of the value in every
/// call. torch.export records these of the model itself, and of the modules that preserve_module_call_signature names.
///
///   self.layer(x, mask=m)      "layer": {"mask": ["m"]}
///
/// A module whose calls are not recorded is not in the map.
using KeywordValues = std::map<std::string, std::map<std::string, std::vector<std::string>>>;
KeywordValues keyword_values(const Program& program);

} // namespace weft::graph
