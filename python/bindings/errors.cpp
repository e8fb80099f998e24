#include "python/bindings/bindings.h"

#include <torch/csrc/Exceptions.h>

namespace weft::python {

std::string type_name(py::handle object) {
  return py::str(py::type::handle_of(object).attr("__name__"));
}

/// Errors become what they become in torch's own functions: ValueError, TypeError, NotImplementedError, DistBackendError
/// and RuntimeError, with the text alone.
void bind_errors(py::module_& /*module*/) {
  py::register_local_exception_translator([](std::exception_ptr error) {
    if (!error) {
      return;
    }
    try {
      std::rethrow_exception(error);
    } catch (const py::error_already_set&) {
      throw;
    } catch (const py::builtin_exception&) {
      throw;
    } catch (const std::exception&) {
      torch::translate_exception_to_python(error);
    }
  });
}

} // namespace weft::python
