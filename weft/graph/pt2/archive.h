#pragma once

#include "weft/graph/pt2/mapped_file.h"

#include <unordered_map>
#include <vector>

namespace weft::graph {

/// A zip file as torch writes it: records that are stored as they are, below one folder. A record is a view of the file.
/// Nothing is believed: whatever does not lie inside the file raises, with the file's and the record's name, and so does a
/// record that is not what its checksum was made of.
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
  /// Raises where there is none of this name, or where its bytes were changed since it was written: it is read once for that.
  std::string_view record(const std::string& name) const;
  /// The same for whoever asks for the record's size and place alone: its bytes are not read.
  std::string_view unread_record(const std::string& name) const;
  /// A checksum of the file's directory, in which those of all records stand: files of other contents have another one.
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
