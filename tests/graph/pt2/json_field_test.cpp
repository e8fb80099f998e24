#include "weft/graph/pt2/json_field.h"

#include "tests/support/error_text.h"

#include <cmath>

namespace weft::graph {

namespace json_field_test {
using testing::error_text;
using testing::expect_contains;

JsonRecord record_of(std::string_view text) {
  return {"m.pt2", "models/model.json", text};
}
std::string error_of(const std::function<void()>& fn) {
  return error_text<c10::ValueError>(fn);
}

TEST(JsonField, ReadsWhatIsThere) {
  const auto record = record_of(R"({"a": [1, {"b": "text"}], "c": null, "d": 1.5, "e": true, "f": {"as_int": 7}})");
  const JsonField root(record);
  EXPECT_EQ(root["a"].size(), 2u);
  EXPECT_EQ(root["a"][0].integer(), 1);
  EXPECT_EQ(root["a"][1]["b"].text(), "text");
  EXPECT_FALSE(root.find("c"));
  EXPECT_FALSE(root.find("z"));
  EXPECT_EQ(root["d"].real(), 1.5);
  EXPECT_TRUE(root["e"].truth());
  EXPECT_EQ(root["f"].tagged().tag, "as_int");
  EXPECT_EQ(root["f"].tagged().value.integer(), 7);
}

TEST(JsonField, ErrorsNameTheRecordAndThePlaceInIt) {
  const auto record = record_of(R"({"graph": {"nodes": [{"inputs": []}, {"inputs": [1, "x"]}]}})");
  const JsonField root(record);
  EXPECT_EQ(
      error_of([&] { root["graph"]["nodes"][1]["inputs"][1].integer(); }),
      "[read_pt2] m.pt2: models/model.json: graph.nodes[1].inputs[1]: an integer of 64 bits is required, but got "
      "\"x\".");
  EXPECT_EQ(
      error_of([&] { root["graph"]["edges"]; }),
      "[read_pt2] m.pt2: models/model.json: graph: the key \"edges\" is required, but it is not there.");
  EXPECT_EQ(
      error_of([&] { root["graph"]["nodes"][2]; }),
      "[read_pt2] m.pt2: models/model.json: graph.nodes: a list of more than 2 is required, but got 2.");
  expect_contains(error_of([&] { root.text(); }), "m.pt2: models/model.json: a text is required, but got an object");
  expect_contains(error_of([&] { root["graph"]["nodes"].tagged(); }), "an object is required, but got a list of 2");
}

TEST(JsonField, NumbersAreCheckedForWhatTheyHold) {
  const auto record =
      record_of(R"([18446744073709551615, -9223372036854775808, 1.5, "Infinity", "-Infinity", "NaN", 1])");
  const JsonField root(record);
  expect_contains(
      error_of([&] { root[0].integer(); }), "[0]: an integer of 64 bits is required, but got 18446744073709551615");
  EXPECT_EQ(root[1].integer(), std::numeric_limits<int64_t>::min());
  EXPECT_EQ(root[3].real(), std::numeric_limits<double>::infinity());
  EXPECT_EQ(root[4].real(), -std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(root[5].real()));
  EXPECT_EQ(root[6].real(), 1.0);
  expect_contains(error_of([&] { root[1].truth(); }), "[1]: true or false is required");
}

TEST(JsonField, TextThatIsNoJsonNamesTheRecord) {
  expect_contains(
      error_of([] { record_of("{\"a\": "); }), "[read_pt2] m.pt2: models/model.json: JSON is required, but got:");
  expect_contains(error_of([] { record_of("\"\xff\""); }), "JSON is required");
  expect_contains(error_of([] { record_of("1e999"); }), "JSON is required");
}

TEST(JsonField, DeepNestingIsRefusedBeforeItIsParsed) {
  expect_contains(
      error_of([] { record_of(std::string(1000000, '[')); }),
      "lists and objects inside of each other are required, but at byte 200 of the JSON are more");
  record_of("\"" + std::string(1000, '[') + "\"");
}

} // namespace json_field_test

} // namespace weft::graph
