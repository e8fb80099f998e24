#pragma once

#include "weft/styles/module_layout.h"

namespace weft::nn {

/// Whether a module takes or gives out plain tensors that are shards or terms of a sum, so that plain tensors in the
/// model differ between ranks:
///
///   colwise({.local_output = true})   // the output is this rank's columns
bool has_plain_shards(const ModuleLayout& layout);

} // namespace weft::nn
