#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>

namespace weft::graph {

/// The bytes of a file, mapped into memory: only what is touched is read. What is written into them stays in this process.
/// Whoever reads from the bytes holds on to the object.
class MappedFile {
 public:
  /// Errors begin with what is being done, `where`.
  static std::shared_ptr<const MappedFile> open(const std::string& path, const std::string& where = "read_pt2");
  /// Bytes that are in memory already; `name` is what errors call them.
  static std::shared_ptr<const MappedFile> from_bytes(std::string bytes, std::string name);
  ~MappedFile();
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;

  const std::string& name() const {
    return name_;
  }
  std::string_view bytes() const {
    return {data_, size_};
  }
  /// Gives the memory of some of the bytes, which nobody has written to, back to the system; touched again, they are read
  /// again.
  void release(std::string_view bytes) const;

 private:
  MappedFile() = default;

  std::string name_;
  std::string own_; // where the bytes are not a map
  const char* data_ = nullptr;
  size_t size_ = 0;
  bool is_mapped_ = false;
};

/// Gives the memory of a tensor that was read from a mapped file back to the system. Touched again, it is read again. Does
/// nothing for a tensor that is not of a mapped file, or that was written to since.
void release_pages(const at::Tensor& tensor);

} // namespace weft::graph
