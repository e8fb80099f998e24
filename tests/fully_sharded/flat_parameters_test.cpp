#include "weft/fully_sharded/flat_parameters.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "weft/fully_sharded/shard_parameters.h"
#include "weft/tensor/boundary/distribute_tensor.h"
#include "weft/tensor/boundary/stride_order.h"
#include "weft/tensor/dispatch.h"

#include <gtest/gtest.h>

#include <set>

namespace weft {

namespace flat_parameters_test {
using namespace weft::testing;

std::vector<at::Tensor> parameters() {
  return {whole_numbers({5, 3}), whole_numbers({7}), whole_numbers({1, 2, 2}), whole_numbers({0, 4})};
}

TEST(FlatParameters, OneCallGathersAllOfThem) {
  on_mesh({3}, [](const DeviceMesh& mesh) {
    const auto pool = std::make_shared<BufferPool>();
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    const CommLog log(mesh);
    flat.start_gather(pool);
    flat.finish_gather();
    EXPECT_EQ(log.calls(), 1);
    for (size_t k = 0; k < flat.size(); ++k) {
      expect_equal(flat.gathered_local(k), parameters()[k]);
    }
  });
}

TEST(FlatParameters, AreGatheredAgainOnlyAfterAWrite) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto pool = std::make_shared<BufferPool>();
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    flat.start_gather(pool);
    flat.finish_gather();
    const CommLog log(mesh);
    flat.start_gather(pool);
    flat.finish_gather();
    EXPECT_EQ(log.calls(), 0);
    flat.leaf(0).mul_(2);
    flat.start_gather(pool);
    flat.finish_gather();
    EXPECT_EQ(log.calls(), 1);
    expect_equal(flat.gathered_local(0), parameters()[0] * 2);
    flat.release();
    EXPECT_FALSE(flat.is_gathered());
  });
}

TEST(FlatParameters, ShardsThatGotOtherMemoryAreFound) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto pool = std::make_shared<BufferPool>();
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    flat.start_gather(pool);
    flat.finish_gather();
    const auto other = make_dtensor(as_dtensor(flat.leaf(1))->local().clone().fill_(9), flat.spec(1));
    flat.leaf(1).set_data(other);
    flat.start_gather(pool);
    flat.finish_gather();
    expect_equal(flat.gathered_local(1), at::full({7}, 9.0F));
    flat.leaf(1).fill_(3); // the leaf is a view of the buffer again
    flat.start_gather(pool);
    flat.finish_gather();
    expect_equal(flat.gathered_local(1), at::full({7}, 3.0F));
  });
}

TEST(FlatParameters, AViewOfAShardFromBeforeTheFirstGatherStaysOne) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto pool = std::make_shared<BufferPool>();
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    const auto view = flat.leaf(1).detach();
    flat.start_gather(pool);
    flat.finish_gather();
    view.fill_(9);
    flat.start_gather(pool);
    flat.finish_gather();
    expect_equal(flat.gathered_local(1), at::full({7}, 9.0F));
  });
}

TEST(FlatParameters, ThoseThatAreGatheredInInferenceModeCanBeTrained) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto pool = std::make_shared<BufferPool>();
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    flat.leaf(1).set_data(make_dtensor(as_dtensor(flat.leaf(1))->local().clone(), flat.spec(1))); // is adopted there
    {
      const c10::InferenceMode inference;
      flat.start_gather(pool);
      flat.finish_gather();
      flat.release_to(2, pool);
      flat.start_gather(pool);
      flat.finish_gather();
    }
    for (size_t k = 0; k < flat.size(); ++k) {
      EXPECT_FALSE(flat.leaf(k).is_inference());
      EXPECT_FALSE(as_dtensor(flat.leaf(k))->local().is_inference());
      EXPECT_FALSE(flat.gathered_local(k).is_inference());
    }
    const auto trained = flat.leaf(1).requires_grad_();
    trained.square().sum().backward();
    expect_equal(as_dtensor(trained.grad())->local(), as_dtensor(trained)->local().detach() * 2);
  });
}

TEST(FlatParameters, MemoryOfShardsIsInTheOrderThatTheirSpecsSay) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto weight = whole_numbers({5, 6, 3});
    for (const int64_t dim : {0, 1, 2}) {
      FlatParameters flat(shard_parameters({weight}, mesh, mesh.name(0), std::nullopt, {dim}), 0, std::nullopt);
      const auto expect_order = [&] {
        flat.start_gather(std::make_shared<BufferPool>());
        flat.finish_gather();
        expect_equal(flat.gathered_local(0), weight);
        const auto& local = as_dtensor(flat.leaf(0))->local();
        EXPECT_TRUE(in_stride_order(local, *flat.spec(0)).is_same(local));
      };
      expect_order();
      // Another leaf may have been given to the module, with the memory that it was loaded into.
      for (const auto format : {at::MemoryFormat::Contiguous, at::MemoryFormat::ChannelsLast}) {
        const auto& spec = *flat.spec(0);
        const auto other =
            format == at::MemoryFormat::Contiguous ? weight : weight.permute({2, 0, 1}).contiguous().permute({1, 2, 0});
        flat.replace(0, distribute_tensor(other, mesh, spec.layout()));
        expect_order();
      }
    }
  });
}

TEST(FlatParameters, NoSequenceOfWritesAndReplacementsComesBackToANumber) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt);
    std::set<uint64_t> numbers;
    const auto expect_new = [&] {
      EXPECT_TRUE(numbers.insert(flat.writes()).second);
      EXPECT_TRUE(numbers.contains(flat.writes())) << "without a write it stays";
    };
    const auto data_of = [&](size_t k) {
      return make_dtensor(at::clone(as_dtensor(flat.leaf(k))->local()), flat.spec(k));
    };
    expect_new();
    for (int i = 0; i < 4; ++i) {
      flat.leaf(0).mul_(2);
      expect_new();
      flat.leaf(0).set_data(data_of(0)); // its counters begin anew
      expect_new();
      flat.leaf(0).add_(1);
      flat.replace(0, data_of(0));
      expect_new();
      flat.start_gather(std::make_shared<BufferPool>());
      flat.finish_gather();
      expect_new();
    }
  });
}

TEST(FlatParameters, RanksThatGatherDifferentOnesOfTheSameSizesGetAnError) {
  std::vector<std::string> texts(2);
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    const auto make = [&](uint32_t unit) {
      return std::make_unique<FlatParameters>(
          shard_parameters(parameters(), mesh, mesh.name(0)), 0, std::nullopt, unit);
    };
    const auto a = make(1);
    const auto b = make(2);
    texts[mesh.rank(0)] = error_text([&] {
      auto& own = mesh.rank(0) == 0 ? *a : *b;
      own.start_gather(std::make_shared<BufferPool>());
      own.finish_gather();
    });
    EXPECT_FALSE(a->is_gathered());
    EXPECT_FALSE(b->is_gathered());
  });
  for (const auto& text : texts) {
    expect_contains(text, "of unit 1 (lengths ");
    expect_contains(text, "of unit 2 (lengths ");
  }
}

TEST(FlatParameters, SubjectsDifferByLengths) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto subject_of = [&](const std::vector<at::Tensor>& tensors) {
      return FlatParameters(shard_parameters(tensors, mesh, mesh.name(0)), 0, std::nullopt, 1).subject();
    };
    EXPECT_EQ(subject_of({at::ones({4, 3})}), subject_of({at::zeros({4, 3})}));
    EXPECT_NE(subject_of({at::ones({4, 3})}), subject_of({at::ones({3, 4})}));
    EXPECT_NE(subject_of({at::ones({4, 3})}), subject_of({at::ones({4, 3}, at::kDouble)}));
  });
}

TEST(FlatParameters, AreCastBeforeTheyAreGathered) {
  on_mesh({2}, [](const DeviceMesh& mesh) {
    FlatParameters flat(shard_parameters(parameters(), mesh, mesh.name(0)), 0, at::kBFloat16);
    const CommLog log(mesh);
    flat.start_gather(std::make_shared<BufferPool>());
    flat.finish_gather();
    expect_equal(flat.gathered_local(0), parameters()[0].to(at::kBFloat16));
    EXPECT_LT(log.bytes(), 64 * 2 * 2);
  });
}

} // namespace flat_parameters_test
} // namespace weft
