#include "tests/integration/oracle_meeting.h"
#include "tests/integration/random_program.h"
#include "weft/comm/world/current_world.h"
#include "weft/comm/world/run_on_ranks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>
#include <map>
#include <numeric>

namespace weft {

namespace random_programs_test {
using namespace weft::testing;

/// WEFT_PROGRAM_SEED=<n> runs that program alone; WEFT_PROGRAMS=<n> that many.
std::vector<uint64_t> seeds() {
  if (const char* seed = std::getenv("WEFT_PROGRAM_SEED")) {
    return {std::stoull(seed)};
  }
  const char* count = std::getenv("WEFT_PROGRAMS");
  std::vector<uint64_t> all(count == nullptr ? 500 : std::stoull(count));
  std::iota(all.begin(), all.end(), uint64_t{1});
  return all;
}

/// Whether a program ends by an error that is meant: a view that is out of date is not read, an operator that is not
/// decomposed saves its inputs where its decomposition would save copies, and autograd has other rules for views of several
/// outputs.
bool is_refused(const std::string& text) {
  const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
  return has("the tensor it was taken of has changed since") || has("has been modified by an inplace operation") ||
      has("This view is the output of a function that returns multiple views");
}

/// How a program goes on this rank.
RankOutcome run(const RandomProgram& program, const DeviceMesh& mesh, const ProgramResult& expected, size_t& refused) {
  try {
    const auto actual = run_distributed(program, mesh);
    refused = actual.refused.size();
    auto problem = program.difference(actual, refused == 0 ? expected : run_on_one_device(program, actual.refused));
    return {problem.empty() ? RankOutcome::Kind::Right : RankOutcome::Kind::Wrong, std::move(problem)};
  } catch (const std::exception& error) {
    const auto* torch_error = dynamic_cast<const c10::Error*>(&error);
    const std::string text = torch_error == nullptr ? error.what() : torch_error->what_without_backtrace();
    if (is_refused(text)) {
      refused = program.steps.size();
      return {RankOutcome::Kind::Right, {}};
    }
    return {RankOutcome::Kind::Raised, text};
  }
}

constexpr std::chrono::seconds kTimeout{10};

struct Summary {
  size_t steps = 0;
  size_t refused = 0;
  std::vector<std::pair<RandomProgram, std::string>> failed;
};

/// Programs of one mesh. After ranks have lost each other the others run anew.
void run_all(const std::vector<RandomProgram>& programs, Summary& summary, std::chrono::seconds timeout = kTimeout) {
  std::vector<ProgramResult> expected;
  for (const auto& program : programs) {
    expected.push_back(run_on_one_device(program));
    summary.steps += program.steps.size();
  }
  const auto& shape = programs[0].mesh_shape;
  const auto size = std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
  size_t next = 0;
  while (next < programs.size()) {
    Meeting meeting(size, [&](const std::vector<RankOutcome>& ranks) {
      const auto verdict = judge(ranks);
      if (verdict.kind != Verdict::Kind::Right) {
        summary.failed.emplace_back(programs[next], verdict.text);
      }
      ++next;
      return verdict.kind == Verdict::Kind::Right;
    });
    const auto first = next;
    run_on_ranks(
        size,
        [&](int64_t rank) {
          const auto mesh = init_device_mesh("cpu", shape);
          for (auto i = first; i < programs.size(); ++i) {
            size_t refused = 0;
            auto outcome = run(programs[i], mesh, expected[i], refused);
            if (rank == 0) {
              summary.refused += refused;
            }
            if (!meeting.tell(rank, std::move(outcome))) {
              return;
            }
          }
        },
        {.timeout = timeout});
  }
}

/// What is left of a failing program when steps without which it still fails have been dropped, the last ones first.
std::pair<RandomProgram, std::string> shrunk(RandomProgram program, std::string problem) {
  for (size_t before = 0; before != program.steps.size();) {
    before = program.steps.size();
    for (auto k = before; k-- > 0;) {
      if (auto shorter = without_step(program, k)) {
        Summary summary;
        run_all({*shorter}, summary, std::chrono::seconds(1));
        if (!summary.failed.empty()) {
          std::tie(program, problem) = summary.failed[0];
        }
      }
    }
  }
  return {program, problem};
}

TEST(RandomPrograms, EqualTheSingleDevice) {
  constexpr size_t kBatch = 50;
  constexpr size_t kMostReported = 10;
  std::map<std::vector<int64_t>, std::vector<RandomProgram>> waiting; // by mesh
  Summary summary;
  const auto all = seeds();
  for (const auto seed : all) {
    auto program = random_program(seed);
    auto& batch = waiting[program.mesh_shape];
    batch.push_back(std::move(program));
    if (batch.size() == kBatch) {
      run_all(batch, summary);
      batch.clear();
    }
  }
  for (const auto& [mesh, batch] : waiting) {
    if (!batch.empty()) {
      run_all(batch, summary);
    }
  }
  std::cout << all.size() << " programs, " << summary.steps << " operators: " << summary.failed.size() << " failed, "
            << summary.refused << " refused: writes to moved views, and all after a read of one that is out of date\n";
  if (all.size() > 1) { // a single replayed program may be refused entirely
    EXPECT_LT(summary.refused * 10, summary.steps);
  }
  for (size_t i = 0; i < summary.failed.size(); ++i) {
    const auto& [program, problem] = summary.failed[i];
    if (i >= kMostReported) {
      ADD_FAILURE() << "also WEFT_PROGRAM_SEED=" << program.seed << ": " << problem.substr(0, 300);
      continue;
    }
    const auto [shorter, reason] = shrunk(program, problem);
    ADD_FAILURE() << "Again by WEFT_PROGRAM_SEED=" << program.seed << ". What is left of it:\n"
                  << shorter.to_string() << reason;
  }
}

TEST(RandomPrograms, TheSameSeedGivesTheSameProgram) {
  for (uint64_t seed = 1; seed < 20; ++seed) {
    const auto program = random_program(seed);
    EXPECT_EQ(program.to_string(), random_program(seed).to_string());
    EXPECT_NE(program.to_string(), random_program(seed + 1).to_string());
    EXPECT_GE(program.steps.size(), 10U);
    EXPECT_LE(program.steps.size(), 30U);
  }
}

} // namespace random_programs_test

} // namespace weft
