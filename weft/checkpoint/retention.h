#pragma once

#include "weft/checkpoint/stored_tensors.h"

#include <optional>

namespace weft {

/// Whether a name is one that weft::save gives the files of a checkpoint, complete or not.
bool is_checkpoint_file(const std::string& name);

/// Removes the files of earlier saves from a checkpoint's folder: those that its manifest does not name.
void remove_unnamed_files(const StoredTensors& stored);

/// Raises unless the name of the folder ends with a number: step_100.
void check_is_numbered(const std::string& folder);

/// Removes the oldest complete checkpoints next to this one, whose names differ from its name in the number at the end alone, but
/// for `keep_last` with this one; 0 removes none. Newer ones and symbolic links stay. The manifest goes first, so that a checkpoint is complete or none; folders
/// without one are left alone, except for those whose removal was interrupted.
void remove_older_checkpoints(const std::string& folder, int64_t keep_last);

/// The newest complete checkpoint among the folders in `folder`; none if there is none.
///
///   latest_checkpoint("run")     // "run/step_300"
std::optional<std::string> latest_checkpoint(const std::string& folder);

/// Writes a file under a temporary name, which gets its name when all of it is on the disk.
void write_text_file(const std::string& path, const std::string& text);

} // namespace weft
