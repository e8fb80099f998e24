#include "weft/tensor/dispatch/direct_signatures.h"

#include "weft/tensor/dispatch/direct_kernel.h"

namespace weft {

namespace {

/// The name of a C++ argument type in schemas.
template <class T>
constexpr const char* schema_type = nullptr;

template <>
constexpr const char* schema_type<at::Tensor> = "Tensor";
template <>
constexpr const char* schema_type<std::optional<at::Tensor>> = "Tensor?";
template <>
constexpr const char* schema_type<at::TensorList> = "Tensor[]";
template <>
constexpr const char* schema_type<at::ITensorListRef> = "Tensor[]";
template <>
constexpr const char* schema_type<at::Scalar> = "Scalar";
template <>
constexpr const char* schema_type<at::ArrayRef<at::Scalar>> = "Scalar[]";
template <>
constexpr const char* schema_type<int64_t> = "int";
template <>
constexpr const char* schema_type<c10::SymInt> = "SymInt";
template <>
constexpr const char* schema_type<std::optional<c10::SymInt>> = "SymInt?";
template <>
constexpr const char* schema_type<bool> = "bool";
template <>
constexpr const char* schema_type<std::optional<bool>> = "bool?";
template <>
constexpr const char* schema_type<double> = "float";
template <>
constexpr const char* schema_type<std::optional<double>> = "float?";
template <>
constexpr const char* schema_type<at::ScalarType> = "ScalarType";
template <>
constexpr const char* schema_type<std::optional<at::ScalarType>> = "ScalarType?";
template <>
constexpr const char* schema_type<std::optional<at::MemoryFormat>> = "MemoryFormat?";
template <>
constexpr const char* schema_type<at::IntArrayRef> = "int[]";
template <>
constexpr const char* schema_type<at::OptionalIntArrayRef> = "int[]?";
template <>
constexpr const char* schema_type<c10::SymIntArrayRef> = "SymInt[]";

using T = const at::Tensor&;
using OptionalT = const std::optional<at::Tensor>&;
using Number = const at::Scalar&;
using TwoT = std::tuple<at::Tensor, at::Tensor>;
using ThreeT = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
using Dtype = std::optional<at::ScalarType>;
using List = at::TensorList;
using Numbers = at::ArrayRef<at::Scalar>;

template <class... Signature>
struct Signatures {};

/// The signatures that training and serving call most, each with an operator that has it.
using Common = Signatures<
    at::Tensor(T),                                               // relu, t, detach
    at::Tensor(T, T),                                            // mm, mul
    at::Tensor(T, T, T),                                         // where
    at::Tensor(T, T, OptionalT),                                 // linear
    at::Tensor(T, Number),                                       // pow
    at::Tensor(T, Number, Number),                               // add.Scalar
    at::Tensor(T, T, Number),                                    // add, threshold_backward
    at::Tensor(T, T, T, Number),                                 // addcmul
    at::Tensor(T, T, T, Number, Number),                         // addmm
    at::Tensor(T, Dtype),                                        // sum
    at::Tensor(T, at::OptionalIntArrayRef, bool, Dtype),         // sum.dim_IntList
    at::Tensor(T, at::IntArrayRef, bool),                        // amax
    at::Tensor(T, int64_t, bool),                                // _softmax
    at::Tensor(T, T, int64_t, at::ScalarType),                   // _softmax_backward_data
    at::Tensor(T, int64_t),                                      // unsqueeze
    at::Tensor(T, int64_t, int64_t),                             // transpose
    at::Tensor(T, at::IntArrayRef),                              // permute
    at::Tensor(T, c10::SymIntArrayRef),                          // view
    at::Tensor(T, c10::SymIntArrayRef, bool),                    // expand
    at::Tensor(T, int64_t, c10::SymInt),                         // select
    at::Tensor(T, T, c10::SymInt, bool, bool),                   // embedding
    at::Tensor(T, std::optional<at::MemoryFormat>),              // clone
    at::Tensor&(at::Tensor&),                                    // relu_
    at::Tensor&(at::Tensor&, T),                                 // mul_
    at::Tensor&(at::Tensor&, Number),                            // fill_
    at::Tensor&(at::Tensor&, T, Number),                         // add_
    at::Tensor&(at::Tensor&, T, T, Number),                      // addcmul_
    at::Tensor&(at::Tensor&, T, bool),                           // copy_
    at::Tensor(const at::ITensorListRef&, int64_t),              // cat
    at::Tensor(List, int64_t),                                   // stack
    std::vector<at::Tensor>(T, int64_t),                         // unbind
    std::vector<at::Tensor>(T, c10::SymInt, int64_t),            // split
    std::vector<at::Tensor>(T, c10::SymIntArrayRef, int64_t),    // split_with_sizes
    std::vector<at::Tensor>(List),                               // _foreach_sqrt
    std::vector<at::Tensor>(List, Number),                       // _foreach_mul.Scalar
    std::vector<at::Tensor>(List, List),                         // _foreach_mul.List
    void(List),                                                  // _foreach_sqrt_
    void(List, Number),                                          // _foreach_mul_.Scalar
    void(List, Numbers),                                         // _foreach_div_.ScalarList
    void(List, T),                                               // _foreach_mul_.Tensor
    void(List, List),                                            // _foreach_mul_.List
    void(List, List, Number),                                    // _foreach_lerp_.Scalar, _foreach_add_.List
    void(List, List, List, Number),                              // _foreach_addcmul_.Scalar
    void(List, List, List, Numbers),                             // _foreach_addcdiv_.ScalarList
    TwoT(T, int64_t, bool),                                      // max.dim
    TwoT(T, at::IntArrayRef, OptionalT, std::optional<double>),  // _fused_rms_norm
    ThreeT(T, c10::SymIntArrayRef, OptionalT, OptionalT, double) // native_layer_norm
    >;

struct BoxedKernel final : c10::OperatorKernel {
  explicit BoxedKernel(const DTensorKernel& general) : kernel(general) {}

  void operator()(const c10::OperatorHandle& /*op*/, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
    kernel.call(keys, stack);
  }

  const DTensorKernel& kernel;
};

template <class Return>
constexpr size_t result_count = 1;
template <>
constexpr size_t result_count<void> = 0;
template <class... Tensors>
constexpr size_t result_count<std::tuple<Tensors...>> = sizeof...(Tensors);

enum class Results : uint8_t { Tensors, FirstArgument, OneList };
template <class Return>
constexpr auto results_of = Results::Tensors;
template <>
constexpr auto results_of<at::Tensor&> = Results::FirstArgument;
template <>
constexpr auto results_of<std::vector<at::Tensor>> = Results::OneList;

/// Whether the operator's results are those of the signature: the first argument, a view of it, or tensors of their
/// own. An operator without results must write to its arguments.
bool has_results(const DTensorKernel& kernel, Results results, size_t count) {
  const auto& schema = kernel.schema();
  const auto& types = kernel.op().schema().returns();
  const bool in_place = results == Results::FirstArgument;
  const bool writes_as_expected = count == 0 ? !schema.written.empty() : schema.written.size() == (in_place ? 1 : 0);
  if (!writes_as_expected || types.size() != count) {
    return false;
  }
  const auto kind = results == Results::OneList ? c10::TypeKind::ListType : c10::TypeKind::TensorType;
  for (size_t r = 0; r < count; ++r) {
    const auto& ret = schema.returns[r];
    const bool is_view_of_first = ret.view_of == 0 && count == 1;
    if (types[r].type()->kind() != kind || ret.stored_in != (in_place ? 0 : -1) ||
        (ret.view_of >= 0 && !is_view_of_first)) {
      return false;
    }
  }
  return true;
}

/// A schema does not determine the C++ signature: resize_ and similar operators take and return `const Tensor&` though
/// they write to it.
template <class Signature>
bool is_called_as(const c10::OperatorHandle& op) {
  try {
    op.typed<Signature>();
    return true;
  } catch (const c10::Error&) {
    return false;
  }
}

template <class Return, class... Args>
bool matches(const DTensorKernel& kernel, Return (* /*signature*/)(Args...)) {
  const std::vector<std::string_view> types = {schema_type<std::remove_cvref_t<Args>>...};
  const auto& arguments = kernel.op().schema().arguments();
  return !kernel.has_inner_dropout() && arguments.size() == types.size() &&
      std::equal(
          arguments.begin(), arguments.end(), types.begin(),
          [](const auto& argument, auto type) { return argument.real_type()->str() == type; }) &&
      has_results(kernel, results_of<Return>, result_count<Return>) && is_called_as<Return(Args...)>(kernel.op());
}

/// Calls fn with a null pointer to the operator's signature; returns false if it is none of the common ones.
template <class Fn, class... Signature>
bool with_signature(const DTensorKernel& kernel, const Fn& fn, Signatures<Signature...> /*common*/) {
  const auto try_one = [&](auto* signature) { return matches(kernel, signature) && (fn(signature), true); };
  return (try_one(static_cast<Signature*>(nullptr)) || ...);
}

} // namespace

torch::CppFunction function_of(const DTensorKernel& kernel) {
  std::optional<torch::CppFunction> function;
  with_signature(
      kernel,
      [&]<class Signature>(Signature* /*signature*/) {
        auto general = c10::BoxedKernel::makeFromFunctor(std::make_unique<BoxedKernel>(kernel));
        function.emplace(DirectKernel<Signature>(kernel, std::move(general)));
      },
      Common());
  return function ? std::move(*function)
                  : torch::CppFunction::makeFromBoxedFunctor(std::make_unique<BoxedKernel>(kernel));
}

bool has_direct_signature(const DTensorKernel& kernel) {
  return with_signature(kernel, [](auto*) {}, Common());
}

} // namespace weft
