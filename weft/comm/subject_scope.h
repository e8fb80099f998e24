#pragma once

#include <cstdint>
#include <string>

namespace weft {

/// The number of a fully sharded unit and a hash of the lengths of its shards. Calls of two units may be alike in all else.
constexpr uint32_t make_subject(uint32_t unit, uint32_t lengths_hash) {
  return (unit & 0xffff) << 16 | (lengths_hash & 0xffff);
}
/// "unit 3 (lengths 5a1f)"
std::string subject_text(uint32_t subject);

/// States what this thread's calls are about until the end of the scope. Members whose calls are about different subjects get
/// an error: otherwise a rank that gathers another unit of the same size would silently be given the wrong parameters.
class SubjectScope {
 public:
  explicit SubjectScope(uint32_t subject);
  ~SubjectScope();
  SubjectScope(const SubjectScope&) = delete;
  SubjectScope& operator=(const SubjectScope&) = delete;

  /// 0 outside of a scope.
  static uint32_t current();

 private:
  uint32_t outer_;
};

} // namespace weft
