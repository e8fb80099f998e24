#include "tests/integration/sample_inputs.h"

namespace weft::testing {

void add_matmul_samples(Samples& samples) {
  samples.add("aten::mm", {{5, 4}, {4, 3}}, [](const Inputs& t) { return at::mm(t[0], t[1]); });
  samples.add("aten::bmm", {{2, 5, 4}, {2, 4, 3}}, [](const Inputs& t) { return at::bmm(t[0], t[1]); });
  samples.add("aten::mv", {{5, 4}, {4}}, [](const Inputs& t) { return at::mv(t[0], t[1]); });
  samples.add("aten::dot", {{5}, {5}}, [](const Inputs& t) { return at::dot(t[0], t[1]); });
  samples.add("aten::addmm", {{3}, {5, 4}, {4, 3}}, [](const Inputs& t) { return at::addmm(t[0], t[1], t[2], 2, 3); });
  samples.add("aten::baddbmm", {{2, 5, 3}, {2, 5, 4}, {2, 4, 3}}, [](const Inputs& t) {
    return at::baddbmm(t[0], t[1], t[2]);
  });
  samples.add("aten::linear", {{2, 5, 4}, {3, 4}, {3}}, [](const Inputs& t) { return at::linear(t[0], t[1], t[2]); });
  samples.add("aten::linear", {{5, 4}, {3, 4}}, [](const Inputs& t) { return at::linear(t[0], t[1]); });
  samples.add("aten::matmul", {{2, 5, 4}, {4, 3}}, [](const Inputs& t) { return at::matmul(t[0], t[1]); });
  samples.add("aten::matmul", {{3, 1, 5, 4}, {2, 4, 3}}, [](const Inputs& t) { return at::matmul(t[0], t[1]); });
  samples.add("aten::matmul", {{4}, {2, 4, 3}}, [](const Inputs& t) { return at::matmul(t[0], t[1]); });
  samples.add("aten::linear", {{4}, {3, 4}, {3}}, [](const Inputs& t) { return at::linear(t[0], t[1], t[2]); });
  samples.add("aten::linear", {{5, 4}, {4}}, [](const Inputs& t) { return at::linear(t[0], t[1]); });
  samples.add("aten::linear", {{4}, {4}}, [](const Inputs& t) { return at::linear(t[0], t[1]); });
  samples.add("aten::linear", {{5, 4}, {3, 4}, {1}}, [](const Inputs& t) { return at::linear(t[0], t[1], t[2]); });
  samples.add("aten::vdot", {{5}, {5}}, [](const Inputs& t) { return at::vdot(t[0], t[1]); });
  samples.add("aten::addmm", {{5, 1}, {5, 4}, {4, 3}}, [](const Inputs& t) { return at::addmm(t[0], t[1], t[2]); });
  samples.add("aten::addmv", {{5}, {5, 4}, {4}}, [](const Inputs& t) { return at::addmv(t[0], t[1], t[2], 2, 3); });
  samples.add("aten::addr", {{5, 4}, {5}, {4}}, [](const Inputs& t) { return at::addr(t[0], t[1], t[2], 2, 3); });
  samples.add("aten::addbmm", {{5, 3}, {2, 5, 4}, {2, 4, 3}}, [](const Inputs& t) {
    return at::addbmm(t[0], t[1], t[2], 2, 3);
  });
  samples.add_with("aten::_addmm_activation", floats({{3}, {5, 4}, {4, 3}}), without_gradients([](const Inputs& t) {
                     return Inputs{at::_addmm_activation(t[0], t[1] - 0.5, t[2])};
                   }));
  const auto grouped = without_gradients([](const Inputs& t) { return Inputs{at::_grouped_mm(t[0], t[1], t[2])}; });
  const auto ends = at::tensor({2, 8}, at::kInt);
  for (const auto& shapes : {Shapes{{8, 16}, {2, 16, 32}}, Shapes{{2, 16, 32}, {32, 8}}, Shapes{{16, 8}, {8, 32}}}) {
    auto inputs = floats(shapes);
    inputs.push_back(ends);
    samples.add_with("aten::_grouped_mm", inputs, grouped);
  }
  const auto scaled = [](at::ScalarType out_dtype) {
    return without_gradients([=](const Inputs& t) {
      const auto left = t[0].to(at::kFloat8_e4m3fn);
      const auto right = t[1].to(at::kFloat8_e4m3fn).t();
      return Inputs{at::_scaled_mm(left, right, t[2], t[3], {}, {}, out_dtype).to(at::kFloat)};
    });
  };
  samples.add_with("aten::_scaled_mm", floats({{6, 32}, {48, 32}, {}, {}}), scaled(at::kFloat));
  samples.add_with("aten::_scaled_mm", floats({{6, 32}, {48, 32}, {6, 1}, {1, 48}}), scaled(at::kFloat));
  samples.add_with("aten::_scaled_mm", floats({{6, 32}, {32, 32}, {}, {}}), scaled(at::kFloat8_e4m3fn));
  for (const auto& scales : {Shapes{{}, {}}, Shapes{{6, 1}, {1, 48}}}) {
    const int64_t recipe = scales[0].empty() ? 0 : 1; // a scale per tensor, or per row and column
    samples.add_with(
        "aten::_scaled_mm_v2", floats({{6, 32}, {48, 32}, scales[0], scales[1]}),
        without_gradients([=](const Inputs& t) {
          const auto left = t[0].to(at::kFloat8_e4m3fn);
          const auto right = t[1].to(at::kFloat8_e4m3fn).t();
          return Inputs{at::_scaled_mm_v2(left, right, t[2], {recipe}, {}, t[3], {recipe}, {}, {}, at::kFloat)};
        }));
  }
  samples.add("aten::linalg_cross", {{5, 3}, {1, 3}}, [](const Inputs& t) { return at::linalg_cross(t[0], t[1]); });
  samples.add("aten::matmul", {{2, 3, 4}, {4}}, [](const Inputs& t) { return at::matmul(t[0], t[1]); });
}

} // namespace weft::testing
