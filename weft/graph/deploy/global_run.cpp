#include "weft/graph/deploy/global_run.h"

#include "weft/comm/world/current_world.h"
#include "weft/core/dtype_text.h"
#include "weft/core/layout_algebra.h"
#include "weft/graph/deploy/thread_ranks.h"
#include "weft/graph/localize/global_values.h"
#include "weft/redistribute/execute.h"

#include <ATen/ATen.h>
#include <c10/core/InferenceMode.h>

namespace weft::graph {

namespace {

using Values = std::vector<c10::IValue>;
using Entry = Manifest::Entry;

const TensorType* tensor_type(const Entry& entry) {
  return entry.type ? std::get_if<TensorType>(&*entry.type) : nullptr;
}

std::string type_text(const TensorType& type) {
  return c10::str(
      dtype_text(type.dtype), "[",
      c10::Join(
          ",",
          [&] {
            std::vector<std::string> sizes;
            for (const auto& size : type.sizes) {
              sizes.push_back(size.to_string());
            }
            return sizes;
          }()),
      "]");
}

/// Checks what is known of a global tensor; the executor checks relations between sizes.
void check_tensor(const Entry& entry, const at::Tensor& tensor) {
  const auto& type = *tensor_type(entry);
  bool fits = tensor.scalar_type() == type.dtype && tensor.dim() == type.dim();
  for (int64_t d = 0; fits && d < tensor.dim(); ++d) {
    fits = !type.sizes[d].is_number() || type.sizes[d].number() == tensor.size(d);
  }
  TORCH_CHECK_VALUE(
      fits, "[GlobalRun] input \"", entry.name, "\" must be ", type_text(type), ", but got ",
      dtype_text(tensor.scalar_type()), "[", c10::Join(",", tensor.sizes()), "].");
  const auto layout = entry.layout.value_or(Layout());
  for (const auto& placement : layout.placements()) {
    TORCH_CHECK_NOT_IMPLEMENTED(
        !placement.is_partial(), "[GlobalRun] input \"", entry.name, "\" has the layout ", layout,
        ", which a global tensor cannot be sharded to. Shard the program with another layout for it.");
  }
}

c10::IValue number_of(const Entry& entry, const at::Tensor& tensor) {
  TORCH_CHECK_VALUE(
      tensor.numel() == 1, "[GlobalRun] input \"", entry.name,
      "\" is a number, a tensor of one element, but got sizes ", tensor.sizes(), ".");
  switch (std::get<NumberType>(*entry.type).kind) {
    case NumberKind::Int:
      return tensor.item().toLong();
    case NumberKind::Float:
      return tensor.item().toDouble();
    case NumberKind::Bool:
      return tensor.item().toBool();
  }
  return {};
}

/// The arguments of one rank's program. They are copies because programs may write to their inputs.
Values local_inputs(const Manifest& manifest, const Program& program, const NamedTensors& inputs, int64_t rank) {
  Values values;
  size_t position = 0;
  for (const auto& input : program.inputs) {
    if (input.kind != InputKind::User) {
      continue;
    }
    const auto& entry = manifest.inputs.at(position++);
    if (!entry.type) {
      values.push_back(input.constant.value_or(c10::IValue()));
    } else if (tensor_type(entry) == nullptr) {
      values.push_back(number_of(entry, inputs.at(entry.name)));
    } else {
      const auto& global = inputs.at(entry.name);
      values.emplace_back(
          (entry.layout ? local_value(global, *entry.layout, place_in(*manifest.mesh, rank)) : global).clone());
    }
  }
  return values;
}

/// Undefined for None and for texts, which no tensor can hold. An integer stays an integer.
at::Tensor as_tensor(const c10::IValue& value) {
  if (value.isTensor()) {
    return value.toTensor();
  }
  return value.isScalar() ? at::scalar_to_tensor(value.toScalar()) : at::Tensor();
}

void check_program(const Manifest& manifest, const Program& program) {
  const auto inputs = std::count_if(
      program.inputs.begin(), program.inputs.end(), [](const Input& input) { return input.kind == InputKind::User; });
  const auto outputs = std::count_if(program.outputs.begin(), program.outputs.end(), [](const Output& output) {
    return output.kind == OutputKind::User;
  });
  TORCH_CHECK_VALUE(
      inputs == static_cast<int64_t>(manifest.inputs.size()) &&
          outputs == static_cast<int64_t>(manifest.outputs.size()),
      "[GlobalRun] the program has ", inputs, " user inputs and ", outputs, " outputs, but its manifest names ",
      manifest.inputs.size(), " and ", manifest.outputs.size(), ". Shard it again.");
}

class OnThreads : public GlobalRun {
 public:
  OnThreads(std::vector<std::shared_ptr<const Program>> programs, Manifest manifest)
      : GlobalRun(std::move(manifest)), programs_(programs), ranks_(std::move(programs)) {}

  void manual_seed(uint64_t seed) override {
    ranks_.manual_seed(seed);
  }

 private:
  std::vector<at::Tensor> run_checked(const NamedTensors& inputs) override {
    std::vector<Values> locals;
    for (size_t i = 0; i < programs_.size(); ++i) {
      const auto rank = manifest().mesh ? manifest().mesh->ranks()[i] : 0;
      locals.push_back(local_inputs(manifest(), *programs_[i], inputs, rank));
    }
    const auto outputs = ranks_.run(std::move(locals));
    std::vector<at::Tensor> result;
    for (size_t i = 0; i < manifest().outputs.size(); ++i) {
      std::vector<at::Tensor> of_ranks;
      for (const auto& each : outputs) {
        of_ranks.push_back(as_tensor(each.at(i)));
      }
      const auto& layout = manifest().outputs[i].layout;
      result.push_back(layout ? global_value(of_ranks, *layout, manifest().mesh->shape()) : of_ranks[0]);
    }
    return result;
  }

  std::vector<std::shared_ptr<const Program>> programs_;
  ThreadRanks ranks_;
};

class AsProcess : public GlobalRun {
 public:
  AsProcess(std::shared_ptr<const Program> program, Manifest manifest)
      : GlobalRun(std::move(manifest)),
        mesh_(on_world(*this->manifest().mesh)),
        program_(program),
        executor_(std::move(program), mesh_) {}

  void manual_seed(uint64_t seed) override {
    executor_.manual_seed(seed);
  }

 private:
  static DeviceMesh on_world(const DeviceMesh& mesh) {
    const auto world = current_world();
    TORCH_CHECK_VALUE(
        world->size() == mesh.size(), "[GlobalRun] ", mesh, " needs ", mesh.size(), " processes, but there are ",
        world->size(), ".");
    return DeviceMesh(world, mesh.device_type(), mesh.shape(), mesh.ranks(), mesh.names());
  }

  std::vector<at::Tensor> run_checked(const NamedTensors& inputs) override {
    const auto symbols = symbols_of(inputs);
    auto outputs = executor_.run(local_inputs(manifest(), *program_, inputs, mesh_.world()->rank()));
    std::vector<at::Tensor> result;
    for (size_t i = 0; i < manifest().outputs.size(); ++i) {
      auto tensor = as_tensor(outputs.at(i));
      const auto& entry = manifest().outputs[i];
      result.push_back(entry.layout ? gathered(entry, tensor, symbols) : tensor);
    }
    return result;
  }

  /// The values of the symbols in this call.
  Size::Values symbols_of(const NamedTensors& inputs) const {
    Size::Values values;
    for (const auto& entry : manifest().inputs) {
      if (const auto* type = tensor_type(entry)) {
        for (int64_t d = 0; d < type->dim(); ++d) {
          if (type->sizes[d].is_symbol()) {
            values.emplace(type->sizes[d].name(), inputs.at(entry.name).size(d));
          }
        }
      } else if (entry.type && std::get<NumberType>(*entry.type).kind == NumberKind::Int) {
        values.emplace(std::get<NumberType>(*entry.type).expression, inputs.at(entry.name).item().toLong());
      }
    }
    return values;
  }

  at::Tensor gathered(const Entry& entry, const at::Tensor& local, const Size::Values& symbols) const {
    auto sizes = local.sizes().vec();
    for (int64_t d = 0; d < local.dim(); ++d) {
      // Dims that are not sharded already have their global size, also if it is a symbol.
      if (!entry.layout->shard_order(d).empty()) {
        sizes[d] = tensor_type(entry)->sizes.at(d).evaluate(symbols);
      }
    }
    const c10::InferenceMode inference;
    const auto source = TensorSpec::make(mesh_, *entry.layout, sizes, local.scalar_type());
    return redistribute_local(local.contiguous(), source, source->with(replicated(mesh_))).wait();
  }

  DeviceMesh mesh_;
  std::shared_ptr<const Program> program_;
  Executor executor_;
};

} // namespace

std::vector<at::Tensor> GlobalRun::run(const NamedTensors& inputs) {
  std::vector<std::string> names;
  for (const auto& entry : manifest_.inputs) {
    if (entry.type) {
      names.push_back(entry.name);
    }
  }
  for (const auto& [name, tensor] : inputs) {
    TORCH_CHECK_VALUE(
        std::find(names.begin(), names.end(), name) != names.end(), "[GlobalRun] there is no input \"", name, "\". ",
        names.empty() ? "The program has none" : "The inputs are " + c10::Join(", ", names), ".");
  }
  for (const auto& entry : manifest_.inputs) {
    if (!entry.type) {
      continue;
    }
    const auto found = inputs.find(entry.name);
    TORCH_CHECK_VALUE(
        found != inputs.end(), "[GlobalRun] the input \"", entry.name, "\" is missing. The inputs are ",
        c10::Join(", ", names), ".");
    if (tensor_type(entry) != nullptr) {
      check_tensor(entry, found->second);
    }
  }
  return run_checked(inputs);
}

std::unique_ptr<GlobalRun> run_on_threads(std::vector<std::shared_ptr<const Program>> programs, Manifest manifest) {
  for (const auto& program : programs) {
    check_program(manifest, *program);
  }
  return std::make_unique<OnThreads>(std::move(programs), std::move(manifest));
}

std::unique_ptr<GlobalRun> run_as_process(std::shared_ptr<const Program> program, Manifest manifest) {
  TORCH_CHECK_VALUE(manifest.mesh, "[GlobalRun] a program that is sharded is required, but this one has no mesh.");
  check_program(manifest, *program);
  return std::make_unique<AsProcess>(std::move(program), std::move(manifest));
}

} // namespace weft::graph
