#pragma once

/// Everything a program needs: meshes and placements, communication, redistribution, distributed tensors.

#include "weft/comm/collectives.h"
#include "weft/comm/comm_log.h"
#include "weft/comm/current_world.h"
#include "weft/comm/fake_world.h"
#include "weft/comm/run_on_ranks.h"
#include "weft/core/device_mesh.h"
#include "weft/core/layout.h"
#include "weft/core/picture.h"
#include "weft/core/placement.h"
#include "weft/core/shard_math.h"
#include "weft/core/tensor_spec.h"
#include "weft/nn/loss_parallel.h"
#include "weft/redistribute/execute.h"
#include "weft/redistribute/plan.h"
#include "weft/tensor/dispatch.h"
#include "weft/tensor/distribute.h"
#include "weft/tensor/explain.h"
#include "weft/tensor/random.h"
#include "weft/tensor/random_state.h"
#include "weft/tensor/scopes.h"
