#pragma once

#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::graph {

/// Layouts by the names of buffers.
using BufferLayouts = std::map<std::string, Layout>;

/// Where buffers that a program writes to, such as a cache of keys and values, ought to lie along a mesh dim, so that it
/// communicates least. Every dim that the ranks divide is tried, together for buffers that differ by numbers in their names
/// alone (keys_0, keys_1, ...); `cost(layouts)` says what the program costs under some layouts, and the others whole.
/// Buffers that are only read need no such choice: a rank's part of them is at hand.
BufferLayouts choose_buffer_layouts(
    const Program& program,
    const DeviceMesh& mesh,
    int64_t mesh_dim,
    const std::function<double(const BufferLayouts&)>& cost);

} // namespace weft::graph
