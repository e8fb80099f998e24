#pragma once

#include "weft/graph/pt2/mapped_file.h"

#include <unordered_map>
#include <vector>

namespace weft::graph {

/// A zip file as torch writes it: uncompressed records below one folder. A record is a view of the file. Every offset
/// and size is checked: what is not inside of the file raises with the names of the file and the record, and so does a
/// record whose bytes do not have the stored checksum.
///
///   Archive archive(MappedFile::open("model.pt2"));
///   archive.record("models/model.json");
class Archive {
 public:
  explicit Archive(std::shared_ptr<const MappedFile> file);

  const std::shared_ptr<const MappedFile>& file() const {
    return file_;
  }
  bool has(const std::string& name) const {
    return records_.count(name) != 0;
  }
  /// Raises if there is no such record, or if its bytes do not match the checksum; for that the record is read once.
  std::string_view record(const std::string& name) const;
  /// The same without reading the bytes, for callers that need only the size and the address of the record.
  std::string_view unread_record(const std::string& name) const;
  /// A checksum of the file's directory, which contains the checksums of all records: it differs for files with other
  /// contents.
  uint32_t digest() const {
    return digest_;
  }
  /// In the order of the file's directory.
  const std::vector<std::string>& names() const {
    return names_;
  }

 private:
  struct Record {
    std::string_view bytes;
    uint32_t checksum;
    mutable bool is_checked = false;
  };

  const Record& find(const std::string& name) const;

  std::shared_ptr<const MappedFile> file_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, Record> records_;
  uint32_t digest_ = 0;
};

} // namespace weft::graph
