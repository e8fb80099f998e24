#include "weft/comm/subject_scope.h"

#include <gtest/gtest.h>

#include <thread>

namespace weft {

namespace subject_scope_test {

TEST(SubjectScope, HoldsForItsThreadUntilItsEnd) {
  EXPECT_EQ(SubjectScope::current(), 0);
  {
    const SubjectScope outer(make_subject(1, 2));
    EXPECT_EQ(SubjectScope::current(), make_subject(1, 2));
    {
      const SubjectScope inner(make_subject(3, 4));
      EXPECT_EQ(SubjectScope::current(), make_subject(3, 4));
    }
    EXPECT_EQ(SubjectScope::current(), make_subject(1, 2));
    std::thread([] { EXPECT_EQ(SubjectScope::current(), 0); }).join();
  }
  EXPECT_EQ(SubjectScope::current(), 0);
}

TEST(Subject, NamesTheUnitAndItsLengths) {
  EXPECT_EQ(subject_text(make_subject(12, 0xabc)), "unit 12 (lengths 0abc)");
  EXPECT_NE(make_subject(1, 0), make_subject(0, 1));
}

} // namespace subject_scope_test

} // namespace weft
