#pragma once

#include "weft/graph/pt2/mapped_file.h"

#include <unordered_map>
#include <vector>

namespace weft::graph {

/// A zip file as torch writes it: records that are stored as they are, below one folder. A record is a view of the file.
/// Nothing is believed: whatever does not lie inside the file raises, with the file's and the record's name.
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
  /// Raises where there is none of this name.
  std::string_view record(const std::string& name) const;
  /// In the order of the file's directory.
  const std::vector<std::string>& names() const {
    return names_;
  }

 private:
  std::shared_ptr<const MappedFile> file_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::string_view> records_;
};

} // namespace weft::graph
