#pragma once

#include <map>
#include <string>

namespace weft::testing {

/// What becomes of a group of processes when one of them fails, written once for all backends. Each starts ranks with this
/// environment; every rank that is left must end with an error that names the call and the group.

using Environment = std::map<std::string, std::string>;

/// A rank is killed inside an all_reduce.
void check_killed_rank(const Environment& environment);
/// A rank is stopped inside an all_reduce, and continued when the others have given it up.
void check_stopped_rank(const Environment& environment);
/// A rank ends by itself without making the call of the others.
void check_rank_that_leaves(const Environment& environment);
/// A rank has an error of its own among transfers that are under way.
void check_rank_that_throws(const Environment& environment);
/// Ranks make different calls.
void check_different_calls(const Environment& environment);

} // namespace weft::testing
