#include <weft/weft.h>

#include <iostream>

int main() {
  using namespace weft;
  run_on_ranks(4, [](int64_t rank) { // threads here; the same code runs under torchrun and mpirun
    auto mesh = init_device_mesh("cpu", {2, 2}, {"dp", "tp"});
    auto rows = TensorSpec::make(mesh, {Shard(0), Replicate()}, {5, 4}, at::kFloat);
    auto columns = rows->with({Partial(), Shard(1)});
    auto local = at::full(rows->local_shape_and_offset().shape, rank);

    auto whole = rows->with({Replicate(), Replicate()});
    auto result = redistribute_local(local, rows, whole); // under way
    if (rank == 0) {
      std::cout << draw(*rows) << plan(rows, whole).to_string() << "\n" << result.wait() << "\n";
    }
  });
}
