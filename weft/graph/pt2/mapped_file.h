#pragma once

#include <ATen/core/Tensor.h>

#include <memory>
#include <string>
#include <string_view>

namespace weft::graph {

/// The bytes of a file, mapped into memory: only the pages that are touched are read, and writes stay in this process.
/// A reader of the bytes must keep the object alive.
class MappedFile {
 public:
  /// Errors begin with `where`, which names the caller.
  static std::shared_ptr<const MappedFile> open(const std::string& path, const std::string& where = "read_pt2");
  /// Bytes that are already in memory; errors call them `name`.
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
  /// Returns the memory of unmodified bytes to the system. Bytes that are touched later are read again from the file.
  void release(std::string_view bytes) const;

 private:
  MappedFile() = default;

  std::string name_;
  std::string own_; // the bytes if they are not mapped
  const char* data_ = nullptr;
  size_t size_ = 0;
  bool is_mapped_ = false;
};

/// Returns the memory of a tensor that was read from a mapped file to the system. It is read again if it is touched
/// later. Does nothing for a tensor that is not in a mapped file, or that was written to.
void release_pages(const at::Tensor& tensor);

} // namespace weft::graph
