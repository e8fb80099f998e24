#pragma once

#include <string>

namespace weft::graph {

/// A file that takes its name when it is complete; until then, or if it never is, nothing is there, or what was. A symbolic
/// link stays one, and the file that it names is replaced. A device or a pipe is written to as it is.
///
///   NewFile file("write_pt2", "model.pt2");
///   file.write(data, size);
///   file.complete();
///
/// Errors begin with what is being done, the first argument.
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
  std::string target_; // what a link leads to; empty for a device or a pipe, as is the next
  std::string temporary_;
  int file_ = -1;
};

} // namespace weft::graph
