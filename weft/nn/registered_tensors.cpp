#include "weft/nn/registered_tensors.h"

namespace weft::nn {

namespace {

using Module = torch::nn::Module;
using NamedTensors = torch::OrderedDict<std::string, at::Tensor>;

// The arguments of an explicit instantiation may name private members, and the friend that it defines returns them.
template <class Tag, auto member>
struct Reach {
  friend NamedTensors& reach(Tag /*tag*/, Module& module) {
    return module.*member;
  }
};

struct Parameters {};
NamedTensors& reach(Parameters tag, Module& module);
template struct Reach<Parameters, &Module::parameters_>;

struct Buffers {};
NamedTensors& reach(Buffers tag, Module& module);
template struct Reach<Buffers, &Module::buffers_>;

} // namespace

NamedTensors& registered_parameters(Module& module) {
  return reach(Parameters(), module);
}

NamedTensors& registered_buffers(Module& module) {
  return reach(Buffers(), module);
}

} // namespace weft::nn
