#pragma once

#include "weft/graph/ir/program.h"

namespace weft::graph {

/// How a sharded program is called with global tensors: the contents of `weft.json`, which is stored next to the
/// programs of the ranks.
///
///   {"format": "weft sharded program", "version": 2, "mesh": "mesh(tp=2)",
///    "ranks": [{"rank": 0, "file": "rank_0.pt2", "bytes": 2048, "digest": "1c291ca3"}, {"rank": 1, ...}],
///    "inputs": [{"name": "x", "dtype": "f32", "sizes": ["s77", 16], "layout": "{R}"}, {"name": "n", "number": "int"},
///               {"name": "flag", "constant": true}],
///    "outputs": [{"name": "output_0", "dtype": "f32", "sizes": ["s77", 16], "layout": "{S(1)}"}], "checksum": "cbf43926"}
///
/// A file with another length or digest (Archive::digest) belongs to another program, and a text that does not have its
/// checksum was changed: both raise.
struct Manifest {
  /// A user input or output: a tensor with its global sizes, a number, or a constant that the programs contain.
  struct Entry {
    std::string name;
    std::optional<Type> type;     // none for a constant; of a tensor, only dtype and sizes are used
    std::optional<Layout> layout; // of a tensor; none if the program is not sharded
  };

  /// The file with the program of a rank, in the same folder.
  struct RankFile {
    std::string name;
    uint64_t bytes = 0;
    uint32_t digest = 0;
  };

  std::optional<DeviceMesh> mesh;   // none for a program that is not sharded
  std::vector<RankFile> rank_files; // in the order of the mesh's ranks
  std::vector<Entry> inputs;
  std::vector<Entry> outputs;

  static constexpr const char* kFile = "weft.json";

  std::string to_json() const;
  /// Raises for a text that is not a manifest; errors call it `name`.
  static Manifest parse(const std::string& text, const std::string& name);
  /// Reads the manifest of a folder.
  static Manifest load(const std::string& folder);
};

/// The manifest of a program of global tensors, sharded or not. Its outputs are named output_0, output_1, ...
Manifest manifest_of(const Program& program);

} // namespace weft::graph
