#include "tests/integration/sample_inputs.h"

namespace weft::testing {

void add_embedding_samples(Samples& samples) {
  const Inputs table_and_words = {sample_values({7, 4}, 1), whole_numbers({5}, 7)};
  const Inputs table_and_sentences = {sample_values({8, 3}, 1), whole_numbers({4, 5}, 8)};
  samples.add_with(
      "aten::embedding", table_and_words, [](const Inputs& t) { return Inputs{at::embedding(t[0], t[1])}; });
  samples.add_with(
      "aten::embedding", table_and_sentences, [](const Inputs& t) { return Inputs{at::embedding(t[0], t[1])}; });
  samples.add_with("aten::embedding", table_and_words, [](const Inputs& t) {
    return Inputs{at::embedding(t[0], t[1], /*padding_idx=*/2)};
  });
  samples.add_with("aten::embedding", table_and_sentences, [](const Inputs& t) {
    return Inputs{at::embedding(t[0], t[1], /*padding_idx=*/-1, /*scale_grad_by_freq=*/true)};
  });
  for (const int64_t padding : {-1, 3}) {
    for (const bool scale : {false, true}) {
      samples.add_with(
          "aten::embedding_dense_backward", {sample_values({4, 5, 3}, 1), whole_numbers({4, 5}, 8)},
          without_gradients([padding, scale](const Inputs& t) {
            return Inputs{at::embedding_dense_backward(t[0], t[1], 8, padding, scale)};
          }));
    }
  }
}

} // namespace weft::testing
