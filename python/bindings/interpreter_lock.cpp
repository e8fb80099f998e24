#include "python/bindings/bindings.h"

#include "weft/comm/wait_scope.h"

namespace weft::python {

namespace {

void* release_if_held() {
  return Py_IsInitialized() != 0 && PyGILState_Check() != 0 ? PyEval_SaveThread() : nullptr;
}

void take_back(void* thread) {
  PyEval_RestoreThread(static_cast<PyThreadState*>(thread));
}

} // namespace

/// Not every way from Python to an operator lets go of the lock: indexing with an integer does not, nor does the end of a
/// tensor that is still on its way. Ranks that are threads could then wait for each other for good.
void bind_interpreter_lock(py::module_& /*module*/) {
  set_wait_hooks({.before = &release_if_held, .after = &take_back});
}

} // namespace weft::python
