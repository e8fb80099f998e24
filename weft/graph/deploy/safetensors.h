#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace weft::graph {

using NamedTensors = std::map<std::string, at::Tensor>;

/// Files of named tensors, as the Python package safetensors reads and writes them: the length of the header in 8
/// bytes, the header in JSON, and the bytes of the tensors one after the other.
///
///   write_safetensors({{"x", at::ones({2, 3})}}, "x.safetensors");
///   auto x = read_safetensors("x.safetensors").at("x");
///
/// The tensors that are read are views of the file, which is mapped into memory. A malformed file raises an error that
/// names the file and the tensor. A written file appears under its name only when it is complete.
NamedTensors read_safetensors(const std::string& path);
void write_safetensors(const NamedTensors& tensors, const std::string& path);

} // namespace weft::graph
