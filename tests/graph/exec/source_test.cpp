#include "weft/graph/exec/source.h"

#include "tests/support/on_meshes.h"

namespace weft::graph {

namespace source_test {

using namespace weft::testing;

TEST(Source, LeavesItsSlotAtTheLastUseAlone) {
  Frame frame;
  frame.slots = {at::ones({2}), 3};
  Source::slot_of(0, /*is_last_use=*/false).push(frame);
  EXPECT_TRUE(frame.slots[0].isTensor());
  Source::slot_of(0, /*is_last_use=*/true).push(frame);
  EXPECT_TRUE(frame.slots[0].isNone());
  Source::constant_of("text").push(frame);
  ASSERT_EQ(frame.stack.size(), 3);
  EXPECT_TRUE(frame.stack[0].toTensor().is_same(frame.stack[1].toTensor()));
  EXPECT_EQ(frame.stack[2].toStringRef(), "text");
}

TEST(Source, MakesListsOfTheTypeThatIsAskedFor) {
  Frame frame;
  frame.slots = {at::ones({2}), 3, true};
  const auto list_of = [&](c10::TypePtr type, std::vector<Source> elements) {
    Source source;
    source.kind = Source::Kind::List;
    source.list = std::make_shared<const ListSource>(ListSource{std::move(type), std::move(elements)});
    return source.take(frame);
  };
  EXPECT_EQ(
      list_of(c10::IntType::get(), {Source::slot_of(1, false), Source::constant_of(5)}).toIntVector(),
      (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(list_of(c10::TensorType::get(), {Source::slot_of(0, false)}).toTensorVector().size(), 1);
  EXPECT_TRUE(list_of(c10::BoolType::get(), {Source::slot_of(2, false)}).isBoolList());
  const auto optional = list_of(c10::getTypePtr<std::optional<at::Tensor>>(), {Source(), Source::slot_of(0, false)});
  EXPECT_TRUE(optional.isOptionalTensorList());
  EXPECT_FALSE(optional.toOptionalTensorVector()[0].has_value());
}

TEST(Source, GivesANumberAsADouble) {
  Frame frame;
  frame.slots = {3};
  auto source = Source::slot_of(0, true);
  source.kind = Source::Kind::AsDouble;
  source.push(frame);
  EXPECT_EQ(frame.stack[0].toDouble(), 3.0);
}

} // namespace source_test

} // namespace weft::graph
