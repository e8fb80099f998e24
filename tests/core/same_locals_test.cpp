#include "weft/core/same_locals.h"

#include <gtest/gtest.h>

namespace weft {

namespace same_locals_test {

bool same(const char* mesh, const char* a, const char* b) {
  return have_same_locals(DeviceMesh::parse(mesh), Layout::parse(a), Layout::parse(b));
}

TEST(SameLocals, OnOneRankAllLayoutsAreTheSame) {
  EXPECT_TRUE(same("mesh(a=1)", "{S(0)}", "{P(max)}"));
  EXPECT_TRUE(same("mesh(a=1,b=1)", "{S(0), S(0)}", "{R, P(avg)}"));
}

TEST(SameLocals, LayoutsMayDifferOnMeshDimsOfOneRank) {
  EXPECT_TRUE(same("mesh(a=2,b=2)", "{S(0), R}", "{S(0), R}"));
  EXPECT_TRUE(same("mesh(a=2,b=1)", "{S(0), R}", "{S(0), S(0)}"));
  EXPECT_FALSE(same("mesh(a=2,b=1)", "{S(0), R}", "{R, R}"));
}

TEST(SameLocals, TheShardOrderOfTheOtherMeshDimsMatters) {
  EXPECT_TRUE(same("mesh(a=2,b=1,c=2)", "{S(0)[1], S(0)[2], S(0)[0]}", "{S(0)[1], P(sum), S(0)[0]}"));
  EXPECT_FALSE(same("mesh(a=2,b=1,c=2)", "{S(0)[1], S(0)[2], S(0)[0]}", "{S(0)[0], R, S(0)[1]}"));
}

} // namespace same_locals_test

} // namespace weft
