#include "weft/styles/transformers_styles.h"
#include "weft/styles/style_json.h"

#include <gtest/gtest.h>

namespace weft::nn {

namespace transformers_styles_test {

Style style(const std::string& name) {
  return style_from_json("here", transformers_style(name));
}

TEST(TransformersStyles, EveryNameIsAStyle) {
  EXPECT_EQ(style("colwise_gather_output"), colwise({.output = Replicate()}));
  EXPECT_EQ(style("colwise_rep"), style("colwise_gather_output"));
  EXPECT_EQ(style("rowwise_split_input"), rowwise({.input = Replicate()}));
  EXPECT_EQ(style("rowwise_rep"), style("rowwise_split_input"));
  EXPECT_EQ(style("embedding_rowwise"), rowwise());
  EXPECT_EQ(style("embedding_colwise"), colwise({.output = Replicate()}));
  EXPECT_EQ(style("packed_colwise"), colwise({.parts = 2}));
  EXPECT_EQ(style("packed_rowwise"), rowwise({.parts = 2}));
  EXPECT_EQ(style("sequence_parallel"), sequence());
  EXPECT_EQ(style("all_reduce"), prepare_output({{.to = Replicate()}}));
  EXPECT_EQ(style("moe_tp_experts"), prepare_output({{.to = Replicate()}}));
  EXPECT_EQ(style("grouped_gemm"), shard_parameter());
  for (const auto* name : {"replicated_with_grad_allreduce", "mla_kv_a_proj", "moe_identity_expert"}) {
    EXPECT_EQ(style(name), replicate());
  }
}

TEST(TransformersStyles, OtherNamesAreNoneOfThem) {
  EXPECT_TRUE(transformers_style("colwise").is_null());
  EXPECT_TRUE(transformers_style("ep_router").is_null());
}

} // namespace transformers_styles_test

} // namespace weft::nn
