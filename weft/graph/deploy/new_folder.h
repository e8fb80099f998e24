#pragma once

#include "weft/graph/deploy/manifest.h"

namespace weft::graph {

/// A folder of rank programs that is being written under a temporary name in the same parent folder. It replaces the
/// folder of an earlier call when it is complete; destroyed before, it leaves nothing behind.
///
///   NewFolder folder("out");                  // raises where "out" holds anything else
///   write_pt2(program, folder.path() + "/" + rank_file_name(0));
///   manifest.rank_files.push_back(describe_rank_file(folder.path(), rank_file_name(0)));
///   folder.complete(manifest);
class NewFolder {
 public:
  explicit NewFolder(const std::string& folder);
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// Where to write until then.
  const std::string& path() const {
    return temporary_;
  }
  void complete(const Manifest& manifest);

 private:
  std::string target_;
  std::string temporary_;
};

std::string rank_file_name(int64_t rank);

/// The manifest's entry for a program that was written into the folder.
Manifest::RankFile describe_rank_file(const std::string& folder, const std::string& name);

} // namespace weft::graph
