#include "python/bindings/fx_constants.h"

#include "weft/graph/ir/constant_text.h"

#include <ATen/ScalarOps.h>

namespace weft::python {

namespace {

using c10::IValue;
using c10::TypeKind;

bool is_integer(py::handle object) {
  return PyLong_Check(object.ptr()) && !PyBool_Check(object.ptr());
}

std::optional<IValue> number_of(py::handle object) {
  if (PyBool_Check(object.ptr())) {
    return object.cast<bool>();
  }
  if (is_integer(object)) {
    return object.cast<int64_t>();
  }
  if (PyFloat_Check(object.ptr())) {
    return object.cast<double>();
  }
  return PyComplex_Check(object.ptr()) ? std::optional<IValue>(object.cast<c10::complex<double>>()) : std::nullopt;
}

/// An integer that Python writes as an object of T, such as torch.float32.
template <class T>
std::optional<IValue> named_number(py::handle object) {
  py::detail::make_caster<T> caster;
  if (!caster.load(object, /*convert=*/false)) {
    return std::nullopt;
  }
  return static_cast<int64_t>(py::detail::cast_op<T>(caster));
}

std::optional<IValue> list_of(py::handle object, const c10::TypePtr& element) {
  if (!py::isinstance<py::list>(object) && !py::isinstance<py::tuple>(object)) {
    return std::nullopt;
  }
  c10::impl::GenericList list(graph::stored_type(element));
  for (const auto each : object) {
    auto value = constant_of(each, element);
    if (!value) {
      return std::nullopt;
    }
    list.push_back(std::move(*value));
  }
  return IValue(std::move(list));
}

std::optional<IValue> tensor_of(py::handle object) {
  if (const auto number = number_of(object)) {
    auto tensor = at::scalar_to_tensor(number->toScalar());
    tensor.unsafeGetTensorImpl()->set_wrapped_number(true);
    return IValue(std::move(tensor));
  }
  py::detail::make_caster<at::Tensor> caster;
  return caster.load(object, false) ? std::optional<IValue>(py::detail::cast_op<at::Tensor>(caster)) : std::nullopt;
}

} // namespace

std::optional<IValue> constant_of(py::handle object, const c10::TypePtr& type) {
  switch (type->kind()) {
    case TypeKind::OptionalType:
      return object.is_none() ? std::optional<IValue>(IValue())
                              : constant_of(object, type->expectRef<c10::OptionalType>().getElementType());
    case TypeKind::ListType:
      return list_of(object, type->expectRef<c10::ListType>().getElementType());
    case TypeKind::TensorType:
      return tensor_of(object);
    case TypeKind::IntType:
    case TypeKind::SymIntType:
      return is_integer(object) ? number_of(object) : std::nullopt;
    case TypeKind::FloatType:
    case TypeKind::SymFloatType:
      return PyFloat_Check(object.ptr()) || is_integer(object) ? std::optional<IValue>(object.cast<double>())
                                                               : std::nullopt;
    case TypeKind::BoolType:
    case TypeKind::SymBoolType:
      return PyBool_Check(object.ptr()) ? number_of(object) : std::nullopt;
    case TypeKind::NumberType:
      return number_of(object);
    case TypeKind::StringType:
      return py::isinstance<py::str>(object) ? std::optional<IValue>(object.cast<std::string>()) : std::nullopt;
    case TypeKind::AnyType: // a group's name
      return py::isinstance<py::str>(object) ? std::optional<IValue>(object.cast<std::string>()) : number_of(object);
    case TypeKind::ScalarTypeType:
      return named_number<at::ScalarType>(object);
    case TypeKind::LayoutType:
      return named_number<c10::Layout>(object);
    case TypeKind::MemoryFormatType:
      return named_number<at::MemoryFormat>(object);
    case TypeKind::DeviceObjType: {
      py::detail::make_caster<at::Device> caster;
      return caster.load(object, false) ? std::optional<IValue>(py::detail::cast_op<at::Device>(caster)) : std::nullopt;
    }
    default:
      return std::nullopt;
  }
}

py::object object_of(const IValue& constant, const c10::TypePtr& type) {
  if (constant.isNone()) {
    return py::none();
  }
  switch (type->kind()) {
    case TypeKind::OptionalType:
      return object_of(constant, type->expectRef<c10::OptionalType>().getElementType());
    case TypeKind::ListType: {
      py::list list;
      for (const IValue& each : constant.toList()) {
        list.append(object_of(each, type->expectRef<c10::ListType>().getElementType()));
      }
      return list;
    }
    case TypeKind::ScalarTypeType:
      return py::cast(static_cast<at::ScalarType>(constant.toInt()));
    case TypeKind::LayoutType:
      return py::cast(static_cast<c10::Layout>(constant.toInt()));
    case TypeKind::MemoryFormatType:
      return py::cast(static_cast<at::MemoryFormat>(constant.toInt()));
    default:
      break;
  }
  if (constant.isTensor()) {
    const auto& tensor = constant.toTensor();
    return tensor.unsafeGetTensorImpl()->is_wrapped_number() ? py::cast(tensor).attr("item")() : py::cast(tensor);
  }
  if (constant.isString()) {
    return py::cast(constant.toStringRef());
  }
  if (constant.isDevice()) {
    return py::cast(constant.toDevice());
  }
  if (constant.isBool()) {
    return py::bool_(constant.toBool());
  }
  if (constant.isInt()) {
    return py::int_(constant.toInt());
  }
  if (constant.isComplexDouble()) {
    return py::cast(constant.toComplexDouble());
  }
  TORCH_INTERNAL_ASSERT(constant.isDouble(), "a constant of type ", type->str(), " has no form in Python");
  return py::float_(constant.toDouble());
}

} // namespace weft::python
