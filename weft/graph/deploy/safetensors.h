#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>

namespace weft::graph {

using NamedTensors = std::map<std::string, at::Tensor>;

/// Files of named tensors, as the Python package safetensors reads and writes them: the length of a header in 8 bytes, the
/// header in JSON, the tensors' bytes one after the other.
///
///   write_safetensors({{"x", at::ones({2, 3})}}, "x.safetensors");
///   auto x = read_safetensors("x.safetensors").at("x");
///
/// What is read is a view of the file, which is mapped into memory. A file that is not what it should be raises, naming the
/// file and the tensor. A written file is there when it is complete.
NamedTensors read_safetensors(const std::string& path);
void write_safetensors(const NamedTensors& tensors, const std::string& path);

} // namespace weft::graph
