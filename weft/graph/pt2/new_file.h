#pragma once

#include <string>

namespace weft::graph {

/// A file that takes its name when it is complete; until then, or if it never is, nothing is there, or what was.
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

  std::string where_;
  std::string path_;
  std::string temporary_;
  int file_ = -1;
};

} // namespace weft::graph
