#include "weft/comm/subject_scope.h"

#include <cstdio>
#include <utility>

namespace weft {

namespace {

thread_local uint32_t current_subject = 0;

} // namespace

std::string subject_text(uint32_t subject) {
  char text[48];
  std::snprintf(text, sizeof(text), "unit %u (lengths %04x)", subject >> 16, subject & 0xffff);
  return text;
}

SubjectScope::SubjectScope(uint32_t subject) : outer_(std::exchange(current_subject, subject)) {}

SubjectScope::~SubjectScope() {
  current_subject = outer_;
}

uint32_t SubjectScope::current() {
  return current_subject;
}

} // namespace weft
