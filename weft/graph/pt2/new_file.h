#pragma once

#include <string>

namespace weft::graph {

/// A file that appears under its name only when it is complete. Until then, or if it is never completed, the old file
/// or no file has the name. A symbolic link stays, and the file that it names is replaced. A device or a pipe is
/// written directly.
///
///   NewFile file("write_pt2", "model.pt2");
///   file.write(data, size);
///   file.complete();
///
/// Errors begin with the first argument, which names the caller.
class NewFile {
 public:
  NewFile(std::string where, const std::string& path);
  ~NewFile();
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  void write(const void* data, size_t size);
  void complete();

 private:
  void check(bool condition, const char* what);
  void remove_temporary();

  std::string where_;
  std::string path_;
  std::string target_; // what a link leads to; it and the next are empty for a device or a pipe
  std::string temporary_;
  int file_ = -1;
};

} // namespace weft::graph
