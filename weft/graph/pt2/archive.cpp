#include "weft/graph/pt2/archive.h"

#include "weft/core/checksum_text.h"
#include "weft/graph/pt2/crc32.h"

#include <c10/util/Exception.h>

#include <algorithm>

namespace weft::graph {

namespace {

constexpr uint32_t kLocalHeader = 0x04034b50;
constexpr uint32_t kDirectoryEntry = 0x02014b50;
constexpr uint32_t kDirectoryEnd = 0x06054b50;
constexpr uint32_t kWideDirectoryEnd = 0x06064b50;
constexpr uint32_t kWideDirectoryLocator = 0x07064b50;
constexpr size_t kLocalHeaderSize = 30;
constexpr size_t kDirectoryEntrySize = 46;
constexpr size_t kDirectoryEndSize = 22;
constexpr size_t kWideDirectoryEndSize = 56;
constexpr size_t kLocatorSize = 20;
constexpr size_t kMaxComment = 65535;
// A field of 32 or 16 bits that is too small for its number has this value; the number is then in another field.
constexpr uint64_t kElsewhere = 0xffffffff;
constexpr uint64_t kElsewhereShort = 0xffff;
constexpr uint16_t kWideExtra = 1;

/// A name from a file for a message: shortened, with unprintable characters replaced.
std::string printable(std::string_view name) {
  std::string text(name.substr(0, 200));
  std::replace_if(text.begin(), text.end(), [](unsigned char c) { return c < 32 || c > 126; }, '?');
  return text;
}

// Fuzzers skip the check, because they cannot guess a checksum and would never get past it.
#ifdef FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION
constexpr bool kVerifies = false;
#else
constexpr bool kVerifies = true;
#endif

/// Releases the pages after reading them, so that little of large weights is in memory at a time.
uint32_t checksum_of(const MappedFile& file, std::string_view bytes) {
  constexpr size_t kReadBytes = size_t{64} << 20;
  uint32_t result = 0;
  for (size_t begin = 0; begin < bytes.size(); begin += kReadBytes) {
    const auto block = bytes.substr(begin, kReadBytes);
    result = joined_crc32(result, crc32(block), block.size());
    file.release(block);
  }
  return result;
}

class ZipParser {
 public:
  explicit ZipParser(const MappedFile& file) : file_(file), bytes_(file.bytes()) {}

  struct Entry {
    std::string_view name;
    std::string_view data;
    uint32_t checksum = 0;
  };

  std::vector<Entry> run() {
    find_directory();
    std::vector<Entry> entries;
    auto at = directory_;
    for (uint64_t i = 0; i < count_; ++i) {
      entries.push_back(read_entry(at));
    }
    return entries;
  }
  /// Valid after `run`.
  std::string_view directory() const {
    return bytes_.substr(directory_, directory_end_ - directory_);
  }

 private:
  template <class... Words>
  void check(bool condition, const Words&... words) const {
    TORCH_CHECK_VALUE(condition, "[read_pt2] ", file_.name(), ": ", words..., ".");
  }
  uint64_t number(uint64_t at, int width) const {
    uint64_t value = 0;
    for (int i = width - 1; i >= 0; --i) {
      value = value << 8 | static_cast<unsigned char>(bytes_[at + i]);
    }
    return value;
  }
  bool fits(uint64_t at, uint64_t size, uint64_t end) const {
    return at <= end && size <= end - at;
  }

  void find_directory() {
    const auto size = bytes_.size();
    check(size >= kDirectoryEndSize, "a zip file is required, but it has ", size, " bytes");
    const auto lowest = size - std::min(size, kDirectoryEndSize + kMaxComment);
    auto at = size - kDirectoryEndSize;
    while (number(at, 4) != kDirectoryEnd || !fits(at + kDirectoryEndSize, number(at + 20, 2), size)) {
      check(at > lowest, "a zip file is required, but no directory was found at its end, as of a truncated one");
      --at;
    }
    count_ = number(at + 10, 2);
    auto directory_size = number(at + 12, 4);
    directory_ = number(at + 16, 4);
    directory_end_ = at;
    if (count_ == kElsewhereShort || directory_size == kElsewhere || directory_ == kElsewhere) {
      const bool has_locator = at >= kLocatorSize && number(at - kLocatorSize, 4) == kWideDirectoryLocator;
      check(has_locator, "the zip file's directory is said to be elsewhere, but not where");
      const auto wide = number(at - kLocatorSize + 8, 8);
      const bool has_wide =
          fits(wide, kWideDirectoryEndSize, at - kLocatorSize) && number(wide, 4) == kWideDirectoryEnd;
      check(has_wide, "the zip file's directory is not at the place that is given for it");
      count_ = number(wide + 32, 8);
      directory_size = number(wide + 40, 8);
      directory_ = number(wide + 48, 8);
      directory_end_ = wide;
    }
    check(fits(directory_, directory_size, directory_end_), "the zip file's directory is outside of the file");
    directory_end_ = directory_ + directory_size;
    check(
        count_ <= directory_size / kDirectoryEntrySize, "the zip file's directory of ", directory_size,
        " bytes cannot have ", count_, " records");
  }

  Entry read_entry(uint64_t& at) const {
    const bool is_entry = fits(at, kDirectoryEntrySize, directory_end_) && number(at, 4) == kDirectoryEntry;
    check(is_entry, "the zip file's directory is broken at byte ", at);
    const auto flags = number(at + 8, 2);
    const auto method = number(at + 10, 2);
    auto stored = number(at + 20, 4);
    auto size = number(at + 24, 4);
    const auto name_size = number(at + 28, 2);
    const auto extra_size = number(at + 30, 2);
    const auto comment_size = number(at + 32, 2);
    auto header = number(at + 42, 4);
    const auto name_at = at + kDirectoryEntrySize;
    check(
        fits(name_at, name_size + extra_size + comment_size, directory_end_),
        "the zip file's directory is broken at byte ", at);
    Entry entry{bytes_.substr(name_at, name_size), {}, static_cast<uint32_t>(number(at + 16, 4))};
    const auto name = printable(entry.name);
    read_wide(name, name_at + name_size, extra_size, size, stored, header);
    check((flags & 1) == 0, name, ": a record must not be encrypted");
    check(
        method == 0 && size == stored, name,
        ": a record must be stored as it is, but it is compressed. torch.export.save writes it so");
    entry.data = read_data(name, entry.name, header, size);
    at = name_at + name_size + extra_size + comment_size;
    return entry;
  }

  /// Reads the 64-bit numbers of those fields that were too small.
  void read_wide(
      const std::string& name,
      uint64_t at,
      uint64_t extra_size,
      uint64_t& size,
      uint64_t& stored,
      uint64_t& header) const {
    const auto end = at + extra_size;
    while (fits(at, 4, end)) {
      const auto id = number(at, 2);
      const auto field_end = at + 4 + number(at + 2, 2);
      at += 4;
      check(field_end <= end, name, ": its entry in the zip file's directory is broken");
      if (id == kWideExtra) {
        for (auto* value : {&size, &stored, &header}) {
          if (*value == kElsewhere) {
            check(fits(at, 8, field_end), name, ": its entry in the zip file's directory is broken");
            *value = number(at, 8);
            at += 8;
          }
        }
      }
      at = field_end;
    }
  }

  std::string_view read_data(const std::string& name, std::string_view full_name, uint64_t header, uint64_t size)
      const {
    const bool has_header = fits(header, kLocalHeaderSize, directory_) && number(header, 4) == kLocalHeader;
    check(has_header, name, ": the record is not at the place that is given for it, byte ", header);
    const auto name_size = number(header + 26, 2);
    const auto extra_size = number(header + 28, 2);
    const auto name_at = header + kLocalHeaderSize;
    check(
        fits(name_at, name_size + extra_size, directory_) && bytes_.substr(name_at, name_size) == full_name, name,
        ": another record is at the place that is given for it, byte ", header);
    const auto begin = name_at + name_size + extra_size;
    check(fits(begin, size, directory_), name, ": the record of ", size, " bytes is outside of the file");
    return bytes_.substr(begin, size);
  }

  const MappedFile& file_;
  std::string_view bytes_;
  uint64_t directory_ = 0;
  uint64_t directory_end_ = 0;
  uint64_t count_ = 0;
};

} // namespace

Archive::Archive(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {
  ZipParser parser(*file_);
  const auto entries = parser.run();
  TORCH_CHECK_VALUE(!entries.empty(), "[read_pt2] ", file_->name(), ": the zip file has no records.");
  digest_ = crc32(parser.directory());
  const auto folder = entries.front().name.substr(0, entries.front().name.find('/') + 1);
  for (const auto& [full_name, data, checksum] : entries) {
    TORCH_CHECK_VALUE(
        !folder.empty() && full_name.substr(0, folder.size()) == folder, "[read_pt2] ", file_->name(),
        ": all records must be in one folder, but got ", printable(full_name), ".");
    std::string name(full_name.substr(folder.size()));
    TORCH_CHECK_VALUE(
        records_.emplace(name, Record{data, checksum}).second, "[read_pt2] ", file_->name(), ": ", printable(name),
        ": there are two records of this name.");
    names_.push_back(std::move(name));
  }
}

const Archive::Record& Archive::find(const std::string& name) const {
  const auto found = records_.find(name);
  TORCH_CHECK_VALUE(
      found != records_.end(), "[read_pt2] ", file_->name(), ": ", printable(name),
      ": there is no such record, but an exported program has it. Write the file with torch.export.save.");
  return found->second;
}

std::string_view Archive::unread_record(const std::string& name) const {
  return find(name).bytes;
}

std::string_view Archive::record(const std::string& name) const {
  const auto& record = find(name);
  if (kVerifies && !record.is_checked) {
    const auto checksum = checksum_of(*file_, record.bytes);
    TORCH_CHECK_VALUE(
        checksum == record.checksum, "[read_pt2] ", file_->name(), ": ", printable(name), ": bytes of the checksum ",
        checksum_text(record.checksum), " are required, but they have ", checksum_text(checksum),
        ": the file is damaged. Copy it or write it again.");
    record.is_checked = true;
  }
  return record.bytes;
}

} // namespace weft::graph
