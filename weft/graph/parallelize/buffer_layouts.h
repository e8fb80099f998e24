#pragma once

#include "weft/graph/ir/program.h"

#include <functional>

namespace weft::graph {

/// Layouts by the names of buffers.
using BufferLayouts = std::map<std::string, Layout>;

/// Chooses layouts along a mesh dim for the buffers that a program writes to, such as a cache of keys and values, so
/// that it communicates least. Tries every dim that the ranks divide, with one choice for all buffers whose names
/// differ only by numbers (keys_0, keys_1, ...). `cost(layouts)` is the cost of the program under some layouts, with
/// the other buffers replicated. Read-only buffers need no such choice: a rank can slice them without communication.
BufferLayouts choose_buffer_layouts(
    const Program& program,
    const DeviceMesh& mesh,
    int64_t mesh_dim,
    const std::function<double(const BufferLayouts&)>& cost);

} // namespace weft::graph
