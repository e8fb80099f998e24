#pragma once

#include <exception>

namespace weft {

/// Runs steps all of which have to run, as those that free memory do, and rethrows the first error after the last of them.
class FirstError {
 public:
  template <class Step>
  void run(const Step& step) {
    try {
      step();
    } catch (...) {
      error_ = error_ ? error_ : std::current_exception();
    }
  }
  void rethrow() const {
    if (error_) {
      std::rethrow_exception(error_);
    }
  }

 private:
  std::exception_ptr error_;
};

} // namespace weft
