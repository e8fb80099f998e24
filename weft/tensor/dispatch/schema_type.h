#pragma once

#include <ATen/core/Tensor.h>

namespace weft {

/// What schemas call a C++ type of arguments.
template <class T>
constexpr const char* schema_type = nullptr;

template <>
constexpr const char* schema_type<at::Tensor> = "Tensor";
template <>
constexpr const char* schema_type<std::optional<at::Tensor>> = "Tensor?";
template <>
constexpr const char* schema_type<at::TensorList> = "Tensor[]";
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

} // namespace weft
