#pragma once

#include "weft/graph/overlap/micro_pipeline.h"

namespace weft::graph {

/// micro_pipeline on the program of this rank, together with the other ranks, whose programs of the same collectives may
/// have other local sizes or nodes, such as a padding of a short shard. A collective is fused only if all members of its
/// group would fuse it, in the same number of chunks: members that decided otherwise would wait for each other.
///
/// Where `options` leave rates open and a collective is large enough for them to matter, they are those of the group, which
/// its members measure at the first time (measure_rates).
///
/// Communicates if the program has collectives over groups that exist (named_groups.h), once per group, in the order of
/// the program. Every member must call it at the same place, and raises within the timeout if another does not. Where no
/// group exists, as on a machine that only compiles, this is micro_pipeline.
OverlapDecisions micro_pipeline_together(Program& program, OverlapOptions options = {});

/// The chunks of every collective that the members of its group agree to fuse, by the name of its result. `own` are this
/// member's decisions on a copy of the program, and `groups` those that exist, with the device of their tensors. On
/// collectives over other groups this member decides alone.
std::map<std::string, int64_t> agreed_chunks(
    const OverlapDecisions& own,
    const std::map<std::string, c10::Device>& groups);

/// The rates of the groups with a collective on which a member decides by rates.
std::map<std::string, OverlapOptions::Rates> measured_rates(
    const OverlapDecisions& own,
    const std::map<std::string, c10::Device>& groups,
    c10::ScalarType dtype);

} // namespace weft::graph
