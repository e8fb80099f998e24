#pragma once

#include "weft/checkpoint/async_saver.h"
#include "weft/checkpoint/load_files.h"
#include "weft/comm/communicator.h"

#include <ATen/core/ivalue.h>

#include <memory>

namespace weft {

/// What a checkpoint holds, by name: tensors, distributed or plain, and values (numbers, texts, booleans, None, and lists, tuples and
/// dicts of them).
using State = std::map<std::string, c10::IValue>;

/// Writes a checkpoint into a folder. Every rank of the world calls it. Each rank writes its own safetensors files; of what several
/// ranks hold, each writes a part. A plain tensor counts as replicated. The folder is a checkpoint when all of it is on the disk, and
/// until then an older checkpoint in it stays as it was.
///
///   save({{"weight", weight}, {"step", 100}}, "run/step_100");
///   State state = {{"weight", other}, {"step", 0}};      // any mesh and layout, any number of ranks
///   load(state, "run/step_100");
void save(const State& state, const std::string& folder, const SaveOptions& options = {});

/// Fills the tensors of a state and replaces its values by those of a checkpoint. Each rank reads what its own shards need. Raises for
/// names that the checkpoint lacks; what else it has is not read.
ReadReport load(State& state, const std::string& folder, const LoadOptions& options = {});

/// Tensors and values apart, as save_files takes them: values as JSON text. What cannot be saved becomes the error of the result,
/// which the save raises on all ranks.
LocalState local_state(const State& state);

/// Loads tensors alone, in place, from any stored ones.
ReadReport load_tensors(
    const StoredTensors& stored,
    const std::map<std::string, at::Tensor>& tensors,
    const LoadOptions& options = {});

/// A saver that writes in the background (async_saver.h). All ranks of the world make it, under the same name; savers that are used
/// at the same time need different names.
std::unique_ptr<AsyncSaver> make_async_saver(const std::string& name = "async_save");
void save(AsyncSaver& saver, const State& state, const std::string& folder, const SaveOptions& options = {});

/// The ranks of a world, over a mesh of its own.
RankTexts texts_of_world(const c10::intrusive_ptr<Communicator>& world, const std::string& name);

} // namespace weft
