#pragma once

#include "tests/support/error_text.h"
#include "tests/support/process_ranks.h"

namespace weft::testing {

/// In a role: runs `fn` and prints `<name>caught: <text of its error>`, or `<name>no error`.
void say_error_of(const std::function<void()>& fn, const std::string& name = {});

/// In a test: what rank `rank` said after the first `<name>caught: `: the rest of the line, or of everything where no
/// name is given. The test fails if it said no such thing.
std::string caught_by(const std::vector<Outcome>& ranks, size_t rank, const std::string& name = {});

/// In a test: the rank was ended by no signal and did not fail.
void expect_ended_well(const std::vector<Outcome>& ranks, size_t rank);

} // namespace weft::testing
