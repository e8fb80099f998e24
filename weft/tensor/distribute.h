#pragma once

/// Everything that makes distributed tensors, moves them, and leads back to plain ones.

#include "weft/tensor/distribute_tensor.h"
#include "weft/tensor/factories.h"
#include "weft/tensor/from_local.h"
#include "weft/tensor/inspect.h"
#include "weft/tensor/redistribute.h"
#include "weft/tensor/text.h"
#include "weft/tensor/to_local.h"
