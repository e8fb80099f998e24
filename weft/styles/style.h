#pragma once

#include "weft/core/placement.h"

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace weft::nn {

/// What a tensor is where it crosses a module's boundary, along the mesh dim of the plan: a plain one is understood to lie
/// as `from`, and whatever comes is brought to `to`. Without `to` it stays as it is.
///
///   S(1) -> R      S(1)      -> R
struct Crossing {
  std::optional<Placement> from = std::nullopt;
  std::optional<Placement> to = std::nullopt;

  static Crossing parse(std::string_view text);
  std::string to_string() const;
  bool operator==(const Crossing&) const = default;
};

enum class StyleKind : uint8_t { Colwise, Rowwise, Sequence, Input, Output, InputOutput, Replicate };

std::string_view to_string(StyleKind kind);

/// How one module is parallel along one mesh dim: a value, made by the functions below and written in plan files.
struct Style {
  StyleKind kind = StyleKind::Replicate;
  std::vector<Crossing> inputs = {};                   // by position; of cut layers, the first one
  std::map<std::string, Crossing> keyword_inputs = {}; // Python alone has them
  bool local_inputs = false;                           // the module is given plain tensors
  std::vector<Crossing> outputs = {};                  // by position
  bool local_outputs = false;                          // the module gives out plain tensors
  std::optional<int64_t> heads = std::nullopt;         // that the features which are cut consist of
  int64_t parts = 1;                                   // that the features consist of, each of which is cut

  bool operator==(const Style&) const = default;
  /// As in a plan file: {"output":"S(1)","style":"rowwise"}
  std::string to_string() const;
};

/// Of colwise and rowwise layers.
struct CutOptions {
  std::optional<Placement> input =
      std::nullopt; // how a plain input lies; replicated, or cut as a rowwise linear needs it
  std::optional<Placement> output = std::nullopt; // S(-1) of a colwise layer, R of a rowwise one
  bool local_output = false;
  /// A cut falls between heads. Their number must be divisible by the ranks; fewer heads than ranks, as keys and values
  /// of grouped queries may have, are computed on every rank.
  std::optional<int64_t> heads = std::nullopt;
  /// Layers joined in one weight, as queries, keys and values often are: every rank has its piece of each.
  int64_t parts = 1;
};

/// Linear: every rank has some of the outputs. Embedding: some of the columns.
Style colwise(const CutOptions& options = {});
/// Linear: every rank has some of the inputs, and what it adds to all outputs is summed up. Embedding: some of the rows.
Style rowwise(const CutOptions& options = {});
/// Norms, dropout: every rank has all parameters and a part of the sequence.
Style sequence(int64_t dim = 1, bool local_output = false);
/// Parameters are whole on every rank; inputs or outputs, or both, are brought where they are wanted.
Style prepare_input(std::vector<Crossing> inputs, bool local_inputs = false);
Style prepare_output(std::vector<Crossing> outputs, bool local_outputs = false);
Style prepare_input_output(std::vector<Crossing> inputs, std::vector<Crossing> outputs);
/// Parameters are whole on every rank.
Style replicate();

} // namespace weft::nn
