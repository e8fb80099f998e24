#include "weft/overlap/measure/mesh_rates.h"

#include "tests/support/error_text.h"
#include "tests/support/on_meshes.h"
#include "tests/support/process_ranks.h"
#include "tests/support/scoped_environment.h"
#include "weft/comm/collectives.h"
#include "weft/comm/comm_log.h"
#include "weft/comm/world/fake_world.h"

#include <c10/util/Logging.h>

namespace weft {

namespace mesh_rates_test {
using testing::error_text;
using testing::expect_contains;
using testing::on_mesh;
using testing::run_process_ranks;
using testing::ScopedEnvironment;

const ScopedEnvironment::Values kNothingGiven = {{"WEFT_LINK", std::nullopt}, {"WEFT_COMPUTE", std::nullopt}};

/// All that is measured, as text with all digits.
std::string text_of(const MeshRates& rates) {
  std::ostringstream text;
  text.precision(17);
  for (const auto& link : rates.links.links) {
    text << link.latency_seconds << ' ' << link.bytes_per_second << ' ';
  }
  const auto& compute = rates.compute;
  text << compute.flops_per_second << ' ' << compute.bytes_per_second << ' ' << compute.call_seconds << ' '
       << compute.message_seconds << ' ' << compute.message_bytes_per_second;
  return text.str();
}

TEST(MeshRates, AreMeasuredAndTheSameOnAllRanksOfTheMesh) {
  const ScopedEnvironment environment(kNothingGiven);
  std::vector<std::string> texts(4);
  on_mesh({2, 2}, [&](const DeviceMesh& mesh) {
    const auto rates = rates_of(mesh, at::kFloat);
    ASSERT_EQ(rates.links.links.size(), 2);
    EXPECT_GT(rates.compute.message_seconds, 0);
    texts[mesh.world()->rank()] = text_of(rates);
  });
  EXPECT_EQ(texts, std::vector<std::string>(4, texts[0]));
}

TEST(MeshRates, AreMeasuredOncePerMeshAndDtype) {
  const ScopedEnvironment environment(kNothingGiven);
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto first = text_of(rates_of(mesh, at::kFloat));
    {
      const CommLog log(mesh);
      EXPECT_EQ(text_of(rates_of(mesh, at::kFloat)), first);
      EXPECT_EQ(log.calls(), 0);
    }
    rates_of(mesh, at::kBFloat16);
  });
}

TEST(MeshRates, AreThoseOfTheEnvironment) {
  const ScopedEnvironment environment(
      {{"WEFT_LINK", "50us,125MB/s"}, {"WEFT_COMPUTE", "100Gflop/s,27GB/s,1us,15us,2GB/s"}});
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    const auto rates = rates_of(mesh, at::kFloat);
    EXPECT_EQ(to_string(rates.link({0, 1})), "50us,125MB/s");
    EXPECT_EQ(to_string(rates.compute), "100Gflop/s,27GB/s,1us,15us,2GB/s");
  });
}

TEST(MeshRates, OneMayBeGivenAndTheOtherMeasured) {
  const ScopedEnvironment environment({{"WEFT_LINK", "50us,125MB/s"}, {"WEFT_COMPUTE", std::nullopt}});
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const auto rates = rates_of(mesh, at::kFloat);
    EXPECT_EQ(to_string(rates.link({0})), "50us,125MB/s");
    EXPECT_GT(rates.compute.flops_per_second, 1e6);
    EXPECT_GT(rates.compute.message_seconds, 0);
  });
}

TEST(MeshRates, OfACallComeBeforeTheEnvironments) {
  const ScopedEnvironment environment({{"WEFT_LINK", "50us,125MB/s"}, {"WEFT_COMPUTE", "1Gflop/s,1GB/s,1us"}});
  const auto plan_mesh = DeviceMesh::parse("mesh(tp=2)");
  give_rates(parse_link("1us,1GB/s"), std::nullopt);
  EXPECT_EQ(to_string(rates_of(plan_mesh, at::kFloat).link({0})), "1us,1GB/s");
  EXPECT_EQ(to_string(rates_of(plan_mesh, at::kFloat).compute), "1Gflop/s,1GB/s,1us");
  give_rates(std::nullopt, std::nullopt);
  EXPECT_EQ(to_string(rates_of(plan_mesh, at::kFloat).link({0})), "50us,125MB/s");
}

TEST(MeshRates, AreConstantsWhereRanksCannotTalk) {
  const ScopedEnvironment environment(kNothingGiven);
  const DeviceMesh fake(make_fake_world(4096), c10::kCPU, {4096}, {"tp"});
  const auto planned = rates_of(DeviceMesh::parse("mesh(tp=2)"), at::kFloat);
  EXPECT_EQ(text_of(rates_of(fake, at::kFloat)), text_of(planned));
  const auto cuda = rates_of(DeviceMesh::parse("mesh(tp=2; cuda)"), at::kBFloat16);
  EXPECT_GT(cuda.link({0}).bytes_per_second, planned.link({0}).bytes_per_second);
  EXPECT_GT(cuda.compute.flops_per_second, planned.compute.flops_per_second);
}

TEST(MeshRates, PrintAsTheyAreReadAndNameTheMeshDims) {
  for (const std::string text :
       {"rates(tp=50us,125MB/s; compute=100Gflop/s,27GB/s,1us)",
        "rates(dp=1ms,1MB/s; compute=0ns,1TB/s; compute=100Gflop/s,27GB/s,1us,15us,2GB/s)"}) {
    EXPECT_EQ(MeshRates::parse(text).to_string(), text);
  }
  const auto rates = MeshRates::parse("rates(dp=1ms,1GB/s;tp=1us,1MB/s;compute=1Gflop/s,1GB/s,1us)");
  EXPECT_EQ(rates.mesh_dims, (std::vector<std::string>{"dp", "tp"}));
  EXPECT_EQ(to_string(rates.link({0})), "1ms,1GB/s");
  EXPECT_EQ(to_string(rates.link({0, 1})), "1ms,1MB/s") << "a group over several dims has the slowest link";
  EXPECT_EQ(rates, MeshRates::parse(rates.to_string()));
  EXPECT_NE(rates, MeshRates::parse("rates(dp=1ms,1GB/s;tp=1us,1MB/s;compute=1Gflop/s,1GB/s,2us)"));
  for (const auto* text :
       {"", "rates()", "rates(tp=50us,125MB/s)", "tp=50us,125MB/s; compute=1Gflop/s,1GB/s,1us",
        "rates(50us,125MB/s; compute=1Gflop/s,1GB/s,1us)", "rates(compute=1Gflop/s,1GB/s,1us; tp=50us,125MB/s)",
        "rates(=50us,125MB/s; compute=1Gflop/s,1GB/s,1us)", "rates(compute=1Gflop/s,1GB/s,1us"}) {
    EXPECT_NE(error_text<c10::ValueError>([&] { MeshRates::parse(text); }), "") << text;
  }
}

TEST(MeshRates, AreMeasuredUpFrontByACallThatMayBeRepeated) {
  const ScopedEnvironment environment(kNothingGiven);
  on_mesh({2, 2}, [](const DeviceMesh& mesh) {
    EXPECT_EQ(agreed_rates(mesh, at::kFloat), std::nullopt);
    const auto rates = measure_rates(mesh);
    EXPECT_EQ(rates.mesh_dims, (std::vector<std::string>{"a", "b"}));
    const CommLog log(mesh);
    EXPECT_EQ(measure_rates(mesh), rates);
    EXPECT_EQ(agreed_rates(mesh, at::kFloat), rates);
    EXPECT_EQ(rates_of(mesh, at::kFloat), rates);
    EXPECT_EQ(log.calls(), 0);
    EXPECT_EQ(agreed_rates(mesh, at::kDouble), std::nullopt);
  });
}

TEST(MeshRates, WhatMeasuringSendsIsCountedAsSuch) {
  const ScopedEnvironment environment(kNothingGiven);
  on_mesh({2}, [](const DeviceMesh& mesh) {
    const CommLog log(mesh);
    {
      const OperatorScope scope("aten::mm");
      rates_of(mesh, at::kFloat);
    }
    EXPECT_GT(log.calls(), 0);
    for (const auto& row : log.rows()) {
      EXPECT_EQ(row.operator_name, "measure_rates");
    }
  });
}

TEST(MeshRates, ThatAreGivenLaterHoldFromTheNextAgreementOn) {
  const ScopedEnvironment environment(kNothingGiven);
  const auto compute = parse_compute("1Gflop/s,1GB/s,1us");
  give_rates(parse_link("1us,1GB/s"), compute);
  const auto version = rates_version();
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    EXPECT_EQ(to_string(rates_of(mesh, at::kFloat).link({0})), "1us,1GB/s");
    EXPECT_EQ(rates_version(), version);
    barrier(mesh, {0});
    // Of ranks that are threads each gives the same, at any time.
    give_rates(parse_link("2us,2GB/s"), compute);
    EXPECT_EQ(to_string(rates_of(mesh, at::kFloat).link({0})), "1us,1GB/s");
    EXPECT_EQ(to_string(measure_rates(mesh, at::kFloat).link({0})), "2us,2GB/s");
    EXPECT_EQ(to_string(rates_of(mesh, at::kFloat).link({0})), "2us,2GB/s");
    EXPECT_GT(rates_version(), version);
  });
  give_rates(std::nullopt, std::nullopt);
}

TEST(MeshRates, ThatOneRankDoesNotMeasureAreAnErrorThatSaysSo) {
  const ScopedEnvironment environment(kNothingGiven);
  std::string text;
  on_mesh({2}, [&](const DeviceMesh& mesh) {
    if (mesh.rank(0) == 0) {
      text = error_text<c10::DistBackendError>([&] { measure_rates(mesh); });
    }
  });
  expect_contains(text, "[all_reduce(max) f64[");
  expect_contains(
      text,
      "[measure_rates] all ranks of mesh(a=2) must agree on rates at the same place, but rank 0 was left alone. Call "
      "measure_rates(mesh) on every rank of the mesh before the first step.");
}

RANK_ROLE(measures_rates) {
  c10::initLogging(); // as `import torch` does: reads TORCH_CPP_LOG_LEVEL
  const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
  measure_rates(mesh, at::kBFloat16);
  measure_rates(mesh, at::kBFloat16);
}

TEST(MeshRates, AreLoggedOnceByTheFirstRankOfTheMesh) {
  const auto ranks = run_process_ranks(
      "measures_rates", 2,
      {.environment = {
           {"WEFT_LINK", "50us,125MB/s"}, {"WEFT_COMPUTE", "100Gflop/s,27GB/s,1us"}, {"TORCH_CPP_LOG_LEVEL", "INFO"}}});
  const std::string line =
      "[measure_rates] the ranks of mesh(tp=2) have agreed on rates for matmuls of bf16: rates(tp=50us,125MB/s; "
      "compute=100Gflop/s,27GB/s,1us)";
  expect_contains(ranks[0].output, line);
  EXPECT_EQ(ranks[0].output.find(line), ranks[0].output.rfind(line)) << ranks[0].output;
  EXPECT_EQ(ranks[1].output.find("[measure_rates]"), std::string::npos) << ranks[1].output;
}

RANK_ROLE(asks_with_a_link_on_rank_0_alone) {
  const ScopedEnvironment environment(kNothingGiven);
  const auto mesh = init_device_mesh("cpu", {2}, {"tp"});
  if (mesh.world()->rank() == 0) {
    give_rates(parse_link("50us,125MB/s"), std::nullopt);
  }
  rates_of(mesh, at::kFloat);
}

TEST(MeshRates, RanksThatWereGivenDifferentOnesAllGetAnError) {
  const auto ranks = run_process_ranks("asks_with_a_link_on_rank_0_alone", 2);
  expect_contains(
      ranks[0].output,
      "[measure_rates] all ranks of mesh(tp=2) must be given the same rates, but rank 0 got the link 50us,125MB/s and "
      "no "
      "compute "
      "and another rank something else. Set WEFT_LINK and WEFT_COMPUTE alike on all, or on none.");
  expect_contains(ranks[1].output, "but rank 1 got no link and no compute and another rank something else.");
}

TEST(MeshRates, WhatIsNoRateIsAnError) {
  const ScopedEnvironment environment(ScopedEnvironment::Values{{"WEFT_LINK", "fast"}});
  expect_contains(
      error_text<c10::ValueError>([] { rates_of(DeviceMesh::parse("mesh(tp=2)"), at::kFloat); }), "[parse_link]");
}

} // namespace mesh_rates_test

} // namespace weft
