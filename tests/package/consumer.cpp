#include <weft/weft.h>

#include <torch/nn/modules/linear.h>

#include <iostream>

int main() {
  std::cout << "consumer says: " << weft::Placement::shard(0).to_string() << '\n';

  weft::nn::Parallel<torch::nn::Linear> layer(4, 4);
  const auto full = layer->weight.detach().clone();
  const auto unit = weft::nn::fully_shard(*layer, weft::init_device_mesh("cpu", {1}, {"dp"}));
  layer(at::ones({2, 4})).sum().backward();
  const bool is_same = weft::is_dtensor(layer->weight) && weft::full_tensor(layer->weight).equal(full);
  return is_same && weft::nn::units_of(*layer) == std::vector{unit} ? 0 : 1;
}
