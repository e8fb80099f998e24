#pragma once

/// All functions that make distributed tensors, redistribute them, and convert them to plain tensors.

#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/from_local.h"
#include "weft/tensor/boundary/redistribute.h"
#include "weft/tensor/boundary/to_local.h"
#include "weft/tensor/factories.h"
#include "weft/tensor/impl/inspect.h"
#include "weft/tensor/impl/text.h"
