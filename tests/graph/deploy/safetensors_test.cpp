#include "weft/graph/deploy/safetensors.h"

#include "tests/support/error_text.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

namespace weft::graph {

namespace safetensors_test {
using testing::error_text;
using testing::expect_contains;

const std::string kPath = ::testing::TempDir() + "weft_safetensors_test.safetensors";

/// A file with this header and these data.
void write(const std::string& header, const std::string& data, int64_t length = -1) {
  std::ofstream file(kPath, std::ios::binary);
  const auto stated = static_cast<uint64_t>(length < 0 ? static_cast<int64_t>(header.size()) : length);
  file.write(reinterpret_cast<const char*>(&stated), sizeof(stated));
  file << header << data;
}

std::string error_of(const std::string& header, const std::string& data = {}, int64_t length = -1) {
  write(header, data, length);
  auto text = error_text<c10::ValueError>([] { read_safetensors(kPath); });
  const auto place = "[read_safetensors] " + kPath + ": ";
  EXPECT_EQ(text.rfind(place, 0), 0u) << text;
  return text.substr(place.size());
}

TEST(Safetensors, ComeBackAsTheyWere) {
  NamedTensors tensors;
  for (const auto dtype :
       {at::kDouble, at::kFloat, at::kHalf, at::kBFloat16, at::kFloat8_e4m3fn, at::kFloat8_e5m2, at::kLong, at::kInt,
        at::kShort, at::kChar, at::kByte, at::kUInt16, at::kUInt32, at::kUInt64, at::kBool, at::kComplexFloat}) {
    tensors[c10::str("x.", dtype)] = at::arange(0, 6).remainder(2).to(dtype).view({3, 2}).t();
  }
  tensors["empty"] = at::empty({0, 3});
  tensors["number"] = at::scalar_tensor(2.5);
  write_safetensors(tensors, kPath);
  const auto read = read_safetensors(kPath);
  ASSERT_EQ(read.size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    const auto& other = read.at(name);
    EXPECT_EQ(other.scalar_type(), tensor.scalar_type()) << name;
    EXPECT_EQ(other.sizes(), tensor.sizes()) << name;
    EXPECT_TRUE(at::equal(other.to(at::kComplexDouble), tensor.to(at::kComplexDouble))) << name;
  }
}

TEST(Safetensors, OfATensorThatIsWrittenToTheFileStaysAsItIs) {
  write_safetensors({{"x", at::ones({4})}}, kPath);
  read_safetensors(kPath).at("x").fill_(7);
  EXPECT_TRUE(at::equal(read_safetensors(kPath).at("x"), at::ones({4})));
}

TEST(Safetensors, ThatAreNotAlignedAreRead) {
  write(
      R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"b":{"dtype":"I32","shape":[1],"data_offsets":[1,5]}})",
      std::string("\x07\x01\0\0\0", 5));
  EXPECT_EQ(read_safetensors(kPath).at("b").item<int>(), 1);
}

TEST(Safetensors, ThatAreNoneAreErrorsThatNameTheFileAndTheTensor) {
  std::ofstream(kPath) << "short";
  expect_contains(error_text<c10::ValueError>([] { read_safetensors(kPath); }), "but it has 5 bytes.");
  EXPECT_EQ(error_of("{}", {}, 1 << 20), "a safetensors file is required, but its header would be 1048576 bytes long.");
  expect_contains(error_of("{", {}), "the header must be JSON, but: ");
  EXPECT_EQ(error_of("[1]"), "the header must be an object.");
  EXPECT_EQ(error_of(std::string(100000, '[')), "the header nests deeper than one of tensors at byte 3.");
  EXPECT_EQ(error_of(R"({"x":1})"), "tensor \"x\" must have a dtype, a shape and data_offsets.");
  const auto entry = [](const std::string& dtype, const std::string& shape, const std::string& offsets) {
    return R"({"x":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
  };
  EXPECT_EQ(error_of(entry("\"F7\"", "[]", "[0,0]")), "tensor \"x\" has the unknown dtype \"F7\".");
  EXPECT_EQ(error_of(entry("\"F32\"", "[]", "[0]")), "tensor \"x\" must have two data_offsets.");
  EXPECT_EQ(error_of(entry("\"F32\"", "[-1]", "[0,0]")), "tensor \"x\" has a size or an offset that is no number.");
  EXPECT_EQ(
      error_of(entry("\"F32\"", "[2]", "[0,8]"), "1234"), "tensor \"x\" is said to be bytes 0 to 8, but there are 4.");
  EXPECT_EQ(
      error_of(entry("\"F32\"", "[4611686018427387905]", "[0,4]"), "1234"),
      "tensor \"x\" of shape [4611686018427387905] and dtype \"F32\" does not take 4 bytes.");
  EXPECT_EQ(error_of(entry("\"U8\"", "[2]", "[0,2]"), "1234"), "the tensors must fill 4 bytes, but end at 2.");
  EXPECT_EQ(
      error_of(entry("\"U8\"", "[2]", "[2,4]"), "1234"),
      "the tensors must be stored one after the other, but none begins at byte 0.");
}

TEST(Safetensors, OfNoFileOrOfAnOddDtypeAreErrors) {
  expect_contains(
      error_text<c10::ValueError>([] { read_safetensors("/none/x.safetensors"); }),
      "[read_safetensors] /none/x.safetensors: cannot be opened: No such file or directory.");
  expect_contains(
      error_text<c10::TypeError>([] { write_safetensors({{"x", at::ones({1}, at::kComplexDouble)}}, kPath); }),
      "tensor \"x\" is of a dtype that the format does not have");
}

} // namespace safetensors_test

} // namespace weft::graph
