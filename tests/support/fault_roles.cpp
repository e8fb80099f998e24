#include "tests/support/fault_roles.h"

namespace weft::testing {

namespace {

const std::string kCaught = "caught: ";

} // namespace

void say_error_of(const std::function<void()>& fn, const std::string& name) {
  try {
    fn();
    say(name, "no error");
  } catch (const c10::Error& error) {
    say(name, kCaught, error.what_without_backtrace());
  } catch (const std::exception& error) {
    say(name, kCaught, "not a c10::Error: ", error.what());
  }
}

std::string caught_by(const std::vector<Outcome>& ranks, size_t rank, const std::string& name) {
  const auto& output = ranks[rank].output;
  const auto found = output.find(name + kCaught);
  if (found == std::string::npos) {
    ADD_FAILURE() << "rank " << rank << " has not said " << name << kCaught << "\n" << describe(ranks);
    return {};
  }
  const auto begin = found + name.size() + kCaught.size();
  return output.substr(begin, name.empty() ? std::string::npos : output.find('\n', begin) - begin);
}

void expect_ended_well(const std::vector<Outcome>& ranks, size_t rank) {
  EXPECT_EQ(ranks[rank].signal, 0) << "rank " << rank << " was ended by a signal\n" << describe(ranks);
  EXPECT_EQ(ranks[rank].exit_code, 0) << "rank " << rank << " has failed\n" << describe(ranks);
}

} // namespace weft::testing
