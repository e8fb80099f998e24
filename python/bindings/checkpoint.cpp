#include "python/bindings/bindings.h"

#include "weft/checkpoint/huggingface.h"
#include "weft/checkpoint/key_map.h"
#include "weft/checkpoint/manifest.h"
#include "weft/checkpoint/retention.h"
#include "weft/checkpoint/state/save.h"
#include "weft/tensor/impl/inspect.h"

#include <ATen/ATen.h>
#include <c10/core/GradMode.h>
#include <pybind11/stl.h>

namespace weft::python {

namespace {

using World = c10::intrusive_ptr<Communicator>;
using NamedTensors = std::map<std::string, at::Tensor>;
using Values = std::map<std::string, std::string>;

SaveOptions save_options(uint64_t max_file_bytes, int64_t keep_last) {
  TORCH_CHECK_VALUE(max_file_bytes > 0, "[save] max_file_bytes must be a positive number, but got 0.");
  return {.max_file_bytes = max_file_bytes, .keep_last = keep_last};
}

/// `error` is why this rank's program has nothing to save. The save raises it on all ranks.
LocalState state_of(const NamedTensors& tensors, Values values, const std::optional<std::string>& error) {
  auto state = local_state(State(tensors.begin(), tensors.end()));
  state.error = error.value_or(state.error);
  state.values = std::move(values);
  return state;
}

/// Waits for its save without the interpreter's lock when it ends: ranks that are threads of this process need the lock to get to
/// that save.
class SaverObject {
 public:
  SaverObject(const World& world, const std::string& name)
      : saver_(std::make_unique<AsyncSaver>(texts_of_world(world, name))) {}
  ~SaverObject() {
    const py::gil_scoped_release no_gil;
    saver_.reset();
  }
  SaverObject(const SaverObject&) = delete;
  SaverObject& operator=(const SaverObject&) = delete;

  AsyncSaver& get() {
    return *saver_;
  }

 private:
  std::unique_ptr<AsyncSaver> saver_;
};

py::dict report_object(const ReadReport& report) {
  py::dict result;
  result["wanted_bytes"] = report.wanted_bytes;
  result["read_bytes"] = report.read_bytes;
  result["verified_bytes"] = report.verified_bytes;
  return result;
}

} // namespace

void bind_checkpoint(py::module_& module) {
  py::class_<StoredTensors>(module, "StoredTensors", "Where the tensors of a folder are.")
      .def_readonly("folder", &StoredTensors::folder)
      .def_readonly("values", &StoredTensors::values)
      .def_property_readonly(
          "tensors",
          [](const StoredTensors& self) {
            py::dict tensors;
            for (const auto& [name, tensor] : self.tensors) {
              tensors[py::str(name)] =
                  py::make_tuple(py::cast(tensor.dtype), py::cast(c10::IntArrayRef(tensor.sizes).vec()));
            }
            return tensors;
          },
          "The dtype and the shape of every tensor.")
      .def(
          "load",
          [](const StoredTensors& self, const NamedTensors& tensors, bool verify, bool broadcast) {
            ReadReport report;
            {
              const py::gil_scoped_release no_gil;
              report = load_tensors(self, tensors, {.verify = verify, .broadcast = broadcast});
            }
            return report_object(report);
          },
          py::arg("tensors"), py::arg("verify") = true, py::arg("broadcast") = false);
  module.def(
      "stored_pretrained",
      [](const std::string& folder) {
        return is_huggingface(folder) ? read_huggingface(folder) : load_manifest(folder, "load_pretrained").stored;
      },
      py::arg("folder"), "What a folder of safetensors files or a checkpoint holds.");
  module.def(
      "match_keys",
      [](const StoredTensors& stored, const std::vector<std::vector<std::string>>& names,
         const std::optional<std::string>& key_map) {
        auto matched = match_keys(stored, names, key_map ? KeyMap::parse(*key_map) : KeyMap());
        return py::make_tuple(std::move(matched.stored), matched.missing, matched.unexpected);
      },
      py::arg("stored"), py::arg("names"), py::arg("key_map"),
      "The stored tensors under the names of a model, and the names that only the model or only the folder has.");
  module.def(
      "stored_checkpoint", [](const std::string& folder) { return load_manifest(folder, "load").stored; },
      py::arg("folder"), "What a folder that save wrote holds.");
  module.def(
      "save_checkpoint",
      [](const World& world, const NamedTensors& tensors, Values values, const std::string& folder,
         uint64_t max_file_bytes, int64_t keep_last, const std::optional<std::string>& error) {
        save_files(
            state_of(tensors, std::move(values), error), folder, texts_of_world(world, "save"),
            save_options(max_file_bytes, keep_last));
      },
      py::arg("world"), py::arg("tensors"), py::arg("values"), py::arg("folder"), py::arg("max_file_bytes"),
      py::arg("keep_last"), py::arg("error") = py::none(), py::call_guard<py::gil_scoped_release>());
  module.def(
      "copy_on_cpu",
      [](const at::Tensor& tensor) {
        const c10::NoGradGuard no_grad;
        const auto& impl = checked_values("copy_on_cpu", tensor);
        const auto local = at::empty_like(impl.local(), impl.local().options().device(at::kCPU)).copy_(impl.local());
        return make_dtensor(local, impl.spec());
      },
      py::arg("tensor"), py::call_guard<py::gil_scoped_release>(),
      "The same distributed tensor with a copy of the local one, on the CPU: to be saved, not to be computed with.");
  module.def("latest_checkpoint", &latest_checkpoint, py::arg("folder"));
  py::class_<SaverObject>(module, "AsyncSaver", "Saves in the background.")
      .def(py::init<const World&, const std::string&>(), py::arg("world"), py::arg("name"))
      .def(
          "save",
          [](SaverObject& self, const NamedTensors& tensors, Values values, const std::string& folder,
             uint64_t max_file_bytes, int64_t keep_last, const std::optional<std::string>& error) {
            self.get().save(
                state_of(tensors, std::move(values), error), folder, save_options(max_file_bytes, keep_last));
          },
          py::arg("tensors"), py::arg("values"), py::arg("folder"), py::arg("max_file_bytes"), py::arg("keep_last"),
          py::arg("error") = py::none(), py::call_guard<py::gil_scoped_release>())
      .def(
          "wait", [](SaverObject& self) { self.get().wait(); }, py::call_guard<py::gil_scoped_release>())
      .def_property_readonly("is_saving", [](SaverObject& self) { return self.get().is_saving(); });
}

} // namespace weft::python
