#include "weft/graph/pt2/archive.h"

#include "tests/support/error_text.h"
#include "tests/support/pt2_file.h"

namespace weft::graph {

namespace archive_test {
using testing::error_text;
using testing::expect_contains;
using testing::zip_file;

Archive archive_of(std::string bytes) {
  return Archive(MappedFile::from_bytes(std::move(bytes), "m.pt2"));
}
std::string error_of(const std::string& bytes) {
  return error_text<c10::ValueError>([&] { archive_of(bytes); });
}

/// The position of the last entry of this name in the directory at the end of the file.
size_t directory_entry(const std::string& bytes, const std::string& name) {
  return bytes.rfind("archive/" + name) - 46;
}

TEST(Archive, RecordsAreWhatWasWritten) {
  const std::string large(100000, 'z');
  const auto archive = archive_of(zip_file({{"a", "one"}, {"data/b", large}, {"empty", ""}}));
  EXPECT_EQ(archive.record("a"), "one");
  EXPECT_EQ(archive.record("data/b"), large);
  EXPECT_EQ(archive.record("empty"), "");
  EXPECT_TRUE(archive.has("a"));
  EXPECT_FALSE(archive.has("b"));
  EXPECT_EQ(archive.names()[1], "data/b");
}

TEST(Archive, ARecordThatWasChangedIsNamedWhenItIsRead) {
  auto bytes = zip_file({{"a", "one"}, {"b", std::string(100, 'z')}});
  bytes[bytes.find("zzz") + 50] ^= 1;
  const auto archive = archive_of(bytes);
  EXPECT_EQ(archive.record("a"), "one");
  const auto error = error_text<c10::ValueError>([&] { archive.record("b"); });
  expect_contains(error, "[read_pt2] m.pt2: b: bytes of the checksum ");
  expect_contains(error, ": the file is damaged. Copy it or write it again.");
  EXPECT_EQ(archive.unread_record("b").size(), 100u);
}

TEST(Archive, DigestsAreOfTheContents) {
  const auto digest = [](const std::string& text) { return archive_of(zip_file({{"a", text}})).digest(); };
  EXPECT_EQ(digest("one"), digest("one"));
  EXPECT_NE(digest("one"), digest("two"));
}

TEST(Archive, RecordsThatAreMissingAreNamed) {
  const auto archive = archive_of(zip_file({{"a", "one"}}));
  expect_contains(
      error_text<c10::ValueError>([&] { archive.record("models/model.json"); }),
      "[read_pt2] m.pt2: models/model.json: there is no such record");
}

TEST(Archive, WhatIsNoZipFileSaysSo) {
  expect_contains(error_of(""), "m.pt2: a zip file is required, but it has 0 bytes");
  expect_contains(error_of(std::string(1000, 'a')), "no directory was found at its end");
}

TEST(Archive, TruncatedAnywhereItRaises) {
  const auto bytes = zip_file({{"a", std::string(300, 'a')}, {"b", "two"}});
  for (size_t size = 0; size < bytes.size(); ++size) {
    EXPECT_THROW(archive_of(bytes.substr(0, size)), c10::ValueError) << size;
  }
}

TEST(Archive, AnyChangedByteOfTheDirectoryRaisesOrIsHarmless) {
  const auto bytes = zip_file({{"a", std::string(300, 'a')}, {"b", "two"}});
  for (size_t at = directory_entry(bytes, "a"); at < bytes.size(); ++at) {
    for (const int value : {0, 1, 127, 128, 255}) {
      auto changed = bytes;
      changed[at] = static_cast<char>(value);
      try {
        const auto archive = archive_of(changed);
        for (const auto& name : archive.names()) {
          EXPECT_LE(name.size(), changed.size());
        }
      } catch (const c10::ValueError& error) {
        expect_contains(error.what(), "[read_pt2] m.pt2: ");
      }
    }
  }
}

TEST(Archive, CompressedAndEncryptedRecordsAreNamed) {
  auto bytes = zip_file({{"a", "one"}});
  bytes[directory_entry(bytes, "a") + 10] = 8;
  expect_contains(error_of(bytes), "archive/a: a record must be stored as it is, but it is compressed");
  bytes = zip_file({{"a", "one"}});
  bytes[directory_entry(bytes, "a") + 8] |= 1;
  expect_contains(error_of(bytes), "archive/a: a record must not be encrypted");
}

TEST(Archive, RecordsOutsideOfTheFileAreNamed) {
  auto bytes = zip_file({{"a", "one"}});
  const auto entry = directory_entry(bytes, "a");
  bytes[entry + 23] = bytes[entry + 27] = 0x70;
  expect_contains(error_of(bytes), "archive/a: the record of 1879048195 bytes is outside of the file");
  bytes = zip_file({{"a", "one"}});
  bytes[entry + 42] = 1;
  expect_contains(error_of(bytes), "archive/a: the record is not at the place that is given for it, byte 1");
}

TEST(Archive, TwoRecordsOfOneNameRaise) {
  auto bytes = zip_file({{"aa", "one"}, {"ab", "two"}});
  for (size_t at = bytes.find("archive/ab"); at != std::string::npos; at = bytes.find("archive/ab", at)) {
    bytes[at + 9] = 'a';
  }
  expect_contains(error_of(bytes), "m.pt2: aa: there are two records of this name");
}

TEST(Archive, NumbersOfSixtyFourBitsAreTakenWhereTheyStand) {
  // The directory's size and position in the 64-bit form of files over 4 GiB, although this file is small.
  const auto bytes = zip_file({{"a", "one"}});
  const auto end = bytes.rfind("PK\5\6");
  const auto text = [](uint64_t value) { return std::string(reinterpret_cast<const char*>(&value), 8); };
  uint32_t size = 0;
  uint32_t place = 0;
  uint16_t count = 0;
  std::memcpy(&count, bytes.data() + end + 10, 2);
  std::memcpy(&size, bytes.data() + end + 12, 4);
  std::memcpy(&place, bytes.data() + end + 16, 4);
  auto wide = bytes.substr(0, place + size);
  const auto record = wide.size();
  wide +=
      std::string("PK\6\6") + text(44) + std::string(12, '\0') + text(count) + text(count) + text(size) + text(place);
  wide += std::string("PK\6\7") + std::string(4, '\0') + text(record) + std::string("\1\0\0\0", 4);
  wide += std::string("PK\5\6") + std::string(4, '\0') + std::string(12, '\xff') + std::string(2, '\0');
  EXPECT_EQ(archive_of(wide).record("a"), "one");
  wide[record + 48] = '\x7f';
  expect_contains(error_of(wide), "the zip file's directory");
}

} // namespace archive_test

} // namespace weft::graph
