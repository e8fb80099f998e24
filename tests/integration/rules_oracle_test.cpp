#include "tests/integration/oracle_calls.h"
#include "tests/integration/oracle_meeting.h"
#include "tests/integration/oracle_missing.h"
#include "tests/support/golden_file.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"
#include "weft/tensor/impl/explain.h"

#include <gtest/gtest.h>

#include <iostream>
#include <map>
#include <numeric>
#include <set>

namespace weft {

namespace rules_oracle_test {
using namespace weft::testing;

/// Once, whatever the layouts that an error names.
std::string without_layouts(std::string text) {
  text = text.substr(0, text.find('\n'));
  for (auto begin = text.find(" @ mesh"); begin != std::string::npos; begin = text.find(" @ mesh")) {
    text.erase(begin, text.find('}', begin) + 1 - begin);
  }
  return text;
}

std::string operator_of(const Sample& sample) {
  return sample.name.substr(0, sample.name.find(' '));
}

/// What the oracle found on one mesh.
struct Report {
  size_t samples = 0;
  size_t calls = 0;
  std::vector<std::string> wrong;                         // also where ranks disagree
  std::map<std::string, size_t> refused;                  // calls, by sample and error
  std::map<std::string, std::set<std::string>> fallbacks; // operators of samples that ran without a rule, by reason
};

class Oracle {
 public:
  explicit Oracle(const std::vector<int64_t>& mesh_shape) : mesh_shape_(mesh_shape) {}

  void check(const Sample& sample) {
    const auto expected = on_one_device(sample);
    const auto ops = mesh_shape_.size() == 1 ? std::vector<ReduceOp>{ReduceOp::Sum, ReduceOp::Avg, ReduceOp::Max}
                                             : std::vector<ReduceOp>{ReduceOp::Sum};
    const auto size = std::accumulate(mesh_shape_.begin(), mesh_shape_.end(), int64_t{1}, std::multiplies<>());
    // Two ranks try the most; more of them show what shapes and several mesh dims add.
    const auto most = size == 2 ? size_t{48} : size_t{24};
    const auto all = combinations(sample, static_cast<int64_t>(mesh_shape_.size()), ops, most);
    size_t number = 0;
    Meeting meeting(size, [&](const std::vector<RankOutcome>& ranks) { return note(sample, all[number++], ranks); });
    // A run of its own: ranks that have lost each other cannot go on.
    run_on_ranks(
        size,
        [&](int64_t rank) {
          const auto mesh = init_device_mesh("cpu", mesh_shape_);
          for (const auto& layouts : all) {
            const ExplainLog log;
            auto outcome = run(sample, mesh, layouts, expected);
            if (rank == 0) {
              note_fallbacks(log);
            }
            if (!meeting.tell(rank, std::move(outcome))) {
              return;
            }
          }
        },
        {.timeout = std::chrono::seconds(5)});
    ++report_.samples;
  }

  const Report& report() const {
    return report_;
  }

 private:
  static RankOutcome run(
      const Sample& sample,
      const DeviceMesh& mesh,
      const std::vector<Layout>& layouts,
      const CallResult& expected) {
    try {
      auto problem = difference(distributed(sample, mesh, layouts, expected.has_gradients), expected);
      return {problem.empty() ? RankOutcome::Kind::Right : RankOutcome::Kind::Wrong, std::move(problem)};
    } catch (const c10::Error& error) {
      return {RankOutcome::Kind::Raised, error.what_without_backtrace()};
    } catch (const std::exception& error) {
      return {RankOutcome::Kind::Raised, error.what()};
    }
  }

  bool note(const Sample& sample, const std::vector<Layout>& layouts, const std::vector<RankOutcome>& ranks) {
    ++report_.calls;
    const auto verdict = judge(ranks);
    if (verdict.kind == Verdict::Kind::Refused) {
      ++report_.refused[sample.name + ": " + without_layouts(verdict.text)];
    } else if (verdict.kind != Verdict::Kind::Right) {
      report_.wrong.push_back(sample.name + " " + weft::testing::to_string(layouts) + ": " + verdict.text);
    }
    return verdict.kind != Verdict::Kind::Disagree;
  }

  /// By rank 0 alone, while others may run but none of them is here.
  void note_fallbacks(const ExplainLog& log) {
    for (const auto& call : log.calls()) {
      if (call->why.starts_with("no rule")) {
        report_.fallbacks[call->why.substr(0, call->why.find(':'))].insert(call->op);
      }
    }
  }

  std::vector<int64_t> mesh_shape_;
  Report report_;
};

void print(const Report& report) {
  std::cout << report.samples << " samples, " << report.calls << " calls: " << report.wrong.size() << " wrong, "
            << report.refused.size() << " refused\n";
  for (const auto& [text, calls] : report.refused) {
    std::cout << "  refused in " << calls << " calls: " << text << "\n";
  }
  for (const auto& [why, ops] : report.fallbacks) {
    std::cout << "  fallback, " << why << ":";
    for (const auto& op : ops) {
      std::cout << " " << op;
    }
    std::cout << "\n";
  }
}

class RulesOracle : public ::testing::TestWithParam<std::vector<int64_t>> {};

TEST_P(RulesOracle, EveryCallEqualsTheSingleDevice) {
  Oracle oracle(GetParam());
  for (const auto& sample : all_samples()) {
    oracle.check(sample);
  }
  const auto& report = oracle.report();
  print(report);
  EXPECT_GT(report.calls, report.samples);
  for (const auto& text : report.wrong) {
    ADD_FAILURE() << text;
  }
  for (const auto& [text, calls] : report.refused) {
    ADD_FAILURE() << calls << " calls of " << text << " are refused";
  }
}

INSTANTIATE_TEST_SUITE_P(
    Meshes,
    RulesOracle,
    ::testing::Values(std::vector<int64_t>{2}, std::vector<int64_t>{3}, std::vector<int64_t>{2, 2}));

TEST(RulesOracleMissing, EveryStrategyThatIsRightIsOfferedButForTheGoldenList) {
  std::map<std::string, std::set<std::string>> missing;   // by sample
  std::map<std::string, std::pair<size_t, size_t>> found; // all and offered, by operator
  for (const auto& sample : all_samples()) {
    for (const auto& strategy : find_strategies(sample)) {
      auto& [all, offered] = found[operator_of(sample)];
      ++all;
      offered += strategy.is_offered ? 1 : 0;
      if (!strategy.is_offered) {
        missing[sample.name].insert(strategy.text);
      }
    }
  }
  size_t all = 0;
  size_t offered = 0;
  for (const auto& [op, counts] : found) {
    all += counts.first;
    offered += counts.second;
  }
  std::string text;
  for (const auto& [name, strategies] : missing) {
    for (const auto& strategy : strategies) {
      text += name + ": " + strategy + "\n";
    }
  }
  std::cout << found.size() << " operators have " << all << " strategies that are right without communication; "
            << offered << " are offered, " << all - offered << " missing:\n"
            << text;
  EXPECT_GT(all, found.size());
  if (!has_operators_of_golden_files()) {
    GTEST_SKIP() << "the golden file is of torch 2.13, this is " << TORCH_VERSION;
  }
  expect_golden(std::filesystem::path(__FILE__).parent_path() / "golden" / "missing.txt", text);
}

} // namespace rules_oracle_test

} // namespace weft
