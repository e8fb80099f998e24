#include "weft/styles/transformers_styles.h"

#include <map>

namespace weft::nn {

using nlohmann::json;

json transformers_style(const std::string& name) {
  const json gathered = {{"style", "colwise"}, {"output", "R"}};
  const json splits_input = {{"style", "rowwise"}, {"input", "R"}};
  const json reduced = {{"style", "output"}, {"outputs", {"-> R"}}};
  const std::map<std::string, json> styles = {
      {"colwise_gather_output", gathered},
      {"colwise_rep", gathered},
      {"rowwise_split_input", splits_input},
      {"rowwise_rep", splits_input},
      {"embedding_rowwise", {{"style", "rowwise"}}},
      {"embedding_colwise", gathered},
      {"packed_colwise", {{"style", "colwise"}, {"parts", 2}}},
      {"packed_rowwise", {{"style", "rowwise"}, {"parts", 2}}},
      {"sequence_parallel", {{"style", "sequence"}}},
      {"all_reduce", reduced},
      {"moe_tp_experts", reduced},
      {"grouped_gemm", {{"style", "shard"}}},
      {"replicated_with_grad_allreduce", {{"style", "replicate"}}},
      {"mla_kv_a_proj", {{"style", "replicate"}}},
      {"moe_identity_expert", {{"style", "replicate"}}},
  };
  const auto found = styles.find(name);
  return found == styles.end() ? json() : found->second;
}

} // namespace weft::nn
