#pragma once

#include "weft/graph/deploy/manifest.h"
#include "weft/graph/pipeline/pass.h"

#include <functional>

namespace weft::graph {

/// Called with the progress, from 0 to 1. An exception ends the work.
using OnProgress = std::function<void(double done)>;

/// Writes the programs of all ranks, with their weights, and the manifest into a folder, which appears when it is
/// complete.
///
///   auto program = read_pt2("model.pt2");
///   shard(program, mesh, plan);
///   write_sharded(program, "out");        // out/rank_0.pt2, ..., out/weft.json
///
/// Weights of a mapped file are in memory one at a time. A folder of an earlier call is replaced; any other folder that
/// is not empty raises. An error leaves nothing behind except for the texts that `passes` may ask for.
void write_sharded(
    const Program& program,
    const std::string& folder,
    const OnProgress& on_progress = {},
    const PassOptions& passes = {});

/// The program of a rank in such a folder, by its position in the mesh. Raises for a file that does not belong to the
/// manifest.
Program read_rank(const std::string& folder, const Manifest& manifest, int64_t rank);

} // namespace weft::graph
