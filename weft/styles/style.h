#pragma once

#include "weft/core/placement.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::nn {

/// The placements of a tensor that crosses a module's boundary, along the mesh dim of the parallel plan. A plain tensor
/// is assumed to have the placement `from`; any tensor is redistributed to `to`. Without `to` it keeps its placement.
///
///   S(1) -> R      S(1)      -> R
struct Crossing {
  std::optional<Placement> from = std::nullopt;
  std::optional<Placement> to = std::nullopt;

  static Crossing parse(std::string_view text);
  std::string to_string() const;
  bool operator==(const Crossing&) const = default;
};

/// The layers that are joined in one weight: so many of one size, or some of different sizes, which are given relative to each
/// other. Every rank holds its shard of each.
///
///   3           queries, keys and values of one size
///   [32,8,8]    32 heads of queries, 8 of keys and 8 of values
class Parts {
 public:
  Parts(int64_t count = 1) : count_(count) {}
  Parts(std::vector<int64_t> sizes);

  bool is_one() const {
    return count_ == 1;
  }
  /// The sizes, where they differ.
  const std::vector<int64_t>& sizes() const {
    return sizes_;
  }
  /// The number of parts, or the sum of their sizes: the size of a sharded dim must be divisible by it.
  int64_t units() const;
  Placement shard(int64_t dim) const {
    return sizes_.empty() ? StridedShard(dim, count_) : StridedShard(dim, sizes_);
  }
  int64_t count() const {
    return count_;
  }
  bool operator==(const Parts&) const = default;

 private:
  int64_t count_;
  std::vector<int64_t> sizes_;
};

enum class StyleKind : uint8_t { Colwise, Rowwise, Shard, Sequence, Input, Output, InputOutput, Replicate };

std::string_view to_string(StyleKind kind);

/// The parallel style of one module along one mesh dim: a value, made by the functions below or read from plan files.
struct Style {
  StyleKind kind = StyleKind::Replicate;
  std::vector<Crossing> inputs = {};                   // by position; colwise and rowwise have one
  std::map<std::string, Crossing> keyword_inputs = {}; // in Python only
  bool local_inputs = false;                           // the module receives plain tensors
  std::vector<Crossing> outputs = {};                  // by position
  bool local_outputs = false;                          // the module returns plain tensors
  std::optional<int64_t> heads = std::nullopt;         // the number of heads that the sharded features consist of
  Parts parts = 1;                                     // the layers joined in the weight, each of which is sharded
  int64_t dim = 0;                                     // the tensor dim of a parameter that is sharded by itself

  bool operator==(const Style&) const = default;
  /// As in a plan file: {"output":"S(1)","style":"rowwise"}
  std::string to_string() const;
};

/// Options of colwise and rowwise layers.
struct ShardedStyleOptions {
  std::optional<Placement> input =
      std::nullopt; // the placement of a plain input; by default R, or S(-1) for a rowwise linear
  std::optional<Placement> output = std::nullopt; // by default S(-1) for a colwise layer, R for a rowwise one
  bool local_output = false;
  /// A shard consists of complete heads. The number of heads must be divisible by the ranks. If there are fewer heads
  /// than ranks, as for keys and values of grouped queries, every rank computes all of them.
  std::optional<int64_t> heads = std::nullopt;
  /// The layers joined in one weight, as queries, keys and values often are: every rank holds its shard of each. A rowwise layer
  /// has joined inputs. With sizes that differ, those are numbers of heads, or of what else is not to be divided.
  Parts parts = 1;
};

/// Linear: every rank computes some of the outputs. Embedding: every rank holds some of the columns.
Style colwise(const ShardedStyleOptions& options = {});
/// Linear: every rank uses some of the inputs, and the ranks' terms of the outputs are summed. Embedding: every rank
/// holds some of the rows.
Style rowwise(const ShardedStyleOptions& options = {});
/// Parameters that a plan names by themselves, as those that hold a layer of every expert: every rank holds a shard of a
/// tensor dim, of each layer that is joined in it.
Style shard_parameter(int64_t dim = 0, const Parts& parts = 1);
/// Norms, dropout: every rank holds all parameters and a shard of the sequence.
Style sequence(int64_t dim = 1, bool local_output = false);
/// Parameters are replicated; inputs, outputs or both are redistributed.
Style prepare_input(std::vector<Crossing> inputs, bool local_inputs = false);
Style prepare_output(std::vector<Crossing> outputs, bool local_outputs = false);
Style prepare_input_output(std::vector<Crossing> inputs, std::vector<Crossing> outputs);
/// Parameters are replicated.
Style replicate();

} // namespace weft::nn
