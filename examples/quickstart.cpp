// The example of the README: a distributed tensor is an at::Tensor.

#include <weft/weft.h>

#include <ATen/ATen.h>

#include <iostream>

int main() {
  using namespace weft;
  run_on_ranks(4, [](int64_t rank) { // threads here; processes under torchrun or mpirun
    auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    auto x = distribute_tensor(at::ones({4, 6, 8}), mesh, {Shard(0), Shard(1)});
    auto w = distribute_tensor(at::ones({16, 8}), mesh, {Replicate(), Shard(0)}).requires_grad_();

    CommLog log(mesh);
    auto y = at::linear(x, w).relu(); // ordinary LibTorch from here on
    auto loss = y.mean();
    loss.backward();
    if (rank == 0) {
      std::cout << *spec_of(y) << "\n" << *spec_of(w.grad()) << "\n" << log.to_string();
    }
    auto full = full_tensor(loss); // on every rank
    if (rank == 0) {
      std::cout << "loss " << full.item<float>() << "\n";
    }
  });
}
