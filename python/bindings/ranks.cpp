#include "weft/comm/world/run_on_ranks.h"

#include "python/bindings/bindings.h"

#include <ATen/ThreadLocalState.h>
#include <c10/core/AutogradState.h>

#include <future>

namespace weft::python {

namespace {

/// What the ranks of one run_on_ranks share. Touched with the interpreter's lock held.
class Run {
 public:
  Run(int64_t size, py::function fn) : fn_(std::move(fn)), results_(size), threads_(size, 0) {}

  /// One rank, on its thread. Raises after an error, so that ranks that wait for this one are released.
  void run_rank(int64_t rank) {
    const py::gil_scoped_acquire gil;
    threads_[rank] = PyThread_get_thread_ident();
    try {
      results_[rank] = fn_(rank);
      threads_[rank] = 0;
    } catch (py::error_already_set& error) {
      threads_[rank] = 0;
      const std::string text = py::str(error.value());
      const auto type = type_name(error.value());
      keep_first(rank, error);
      throw std::runtime_error(text.empty() ? type : type + ": " + text);
    }
  }

  /// Ctrl-C reaches the main thread alone, and that is waiting.
  void interrupt() {
    for (const auto thread : threads_) {
      if (thread != 0) {
        PyThreadState_SetAsyncExc(thread, PyExc_KeyboardInterrupt);
      }
    }
  }

  py::list results() {
    if (error_) {
      PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error_.ptr())), error_.ptr());
      throw py::error_already_set();
    }
    py::list list;
    for (auto& result : results_) {
      list.append(std::move(result));
    }
    return list;
  }

 private:
  void keep_first(int64_t rank, py::error_already_set& error) {
    if (error_) {
      return;
    }
    error_ = error.value();
    if (error.trace()) {
      PyException_SetTraceback(error_.ptr(), error.trace().ptr());
    }
    // Exceptions have notes since Python 3.11.
    if (py::hasattr(error_, "add_note")) {
      error_.attr("add_note")("on rank " + std::to_string(rank));
    }
  }

  py::function fn_;
  std::vector<py::object> results_;
  std::vector<unsigned long> threads_; // of ranks that are running
  py::object error_;
};

py::list run(int64_t size, py::function fn, std::optional<double> timeout) {
  TORCH_CHECK_VALUE(size > 0, "[run_on_ranks] at least one rank is required, but got ", size, ".");
  RunOptions options;
  if (timeout) {
    TORCH_CHECK_VALUE(
        *timeout > 0, "[run_on_ranks] timeout must be a positive number of seconds, but got ", *timeout, ".");
    options.timeout = std::chrono::milliseconds(static_cast<int64_t>(*timeout * 1000));
  }
  Run ranks(size, std::move(fn));
  // What holds for the caller holds for the ranks: no_grad, say.
  const at::ThreadLocalState caller;
  auto all = std::async(std::launch::async, [&] {
    run_on_ranks(
        size,
        [&](int64_t rank) {
          const at::ThreadLocalStateGuard guard(caller);
          c10::AutogradState::get_tls_state().set_multithreading_enabled(false);
          ranks.run_rank(rank);
        },
        options);
  });
  bool interrupted = false;
  while (true) {
    {
      const py::gil_scoped_release no_gil;
      if (all.wait_for(std::chrono::milliseconds(100)) == std::future_status::ready) {
        break;
      }
    }
    if (PyErr_CheckSignals() != 0) {
      PyErr_Clear();
      interrupted = true;
      ranks.interrupt();
    }
  }
  if (interrupted) {
    PyErr_SetNone(PyExc_KeyboardInterrupt);
    throw py::error_already_set();
  }
  try {
    all.get();
  } catch (const std::exception&) {
    ranks.results(); // raises the error itself instead of its text
    throw;
  }
  return ranks.results();
}

} // namespace

void bind_ranks(py::module_& module) {
  module.def(
      "run_on_ranks", &run, py::arg("size"), py::arg("fn"), py::kw_only(), py::arg("timeout") = py::none(),
      "Runs fn(rank) on `size` ranks, each a thread of this process, and returns their results.\n\n"
      "    def step(rank):\n"
      "        mesh = weft.init_device_mesh('cpu', (2, 2), mesh_dim_names=('dp', 'tp'))\n"
      "        ...\n"
      "    weft.run_on_ranks(4, step)\n\n"
      "When a rank raises, the ranks that wait for it are released; the first error is raised here, with its rank as "
      "a\n"
      "note. `timeout` is how many seconds a collective may take.");
}

} // namespace weft::python
