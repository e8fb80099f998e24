#include "weft/graph/ir/name_table.h"

#include <gtest/gtest.h>

#include <set>

namespace weft::graph {

namespace name_table_test {
TEST(NameTable, ANameThatIsTakenIsCountedOn) {
  NameTable names;
  EXPECT_EQ(*names.fresh("add"), "add");
  EXPECT_EQ(*names.fresh("add_1"), "add_1");
  EXPECT_EQ(*names.fresh("add"), "add_2");
  EXPECT_EQ(*names.fresh("add"), "add_3");
  EXPECT_EQ(*names.fresh("add_1"), "add_1_1");
  EXPECT_EQ(*names.fresh(""), "");
  EXPECT_EQ(*names.fresh(""), "_1");
}

TEST(NameTable, NamesStayWhereTheyAreWhileItGrows) {
  constexpr size_t kNames = 5000;
  NameTable names;
  const auto* first = names.fresh("x");
  std::set<std::string> all = {*first};
  for (size_t i = 1; i < kNames; ++i) {
    all.insert(*names.fresh("x"));
  }
  EXPECT_EQ(all.size(), kNames);
  EXPECT_EQ(*all.rbegin(), "x_999");
  EXPECT_EQ(*first, "x");
  EXPECT_EQ(*names.fresh("x_17"), "x_17_1");
}

} // namespace name_table_test

} // namespace weft::graph
