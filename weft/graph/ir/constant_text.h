#pragma once

#include "weft/core/text_cursor.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace weft::graph {

/// A constant of a program as text that parses back exactly. The argument's type in the schema decides how an integer
/// is written and which element type an empty list has:
///
///   3   1.0   1e-05   -inf   complex(0.0, 1.0)   True   None   "a \"name\""   [2, 2]   f32   strided   channels_last   cuda:0
///
/// A number in the place of a tensor is a wrapped number, as in `x + 1`. A constant without a text form (a generator,
/// any other tensor) is printed in angle brackets and does not parse.
std::string constant_text(const c10::IValue& value, const c10::Type& type);
c10::IValue parse_constant(TextCursor& cursor, const c10::TypePtr& type);

/// The type without its Optional.
const c10::Type& without_none(const c10::Type& type);
/// The element type of a list; the Any type for a type that is not a list.
c10::TypePtr element_type(const c10::Type& type);

/// The element type that an IValue uses for such a list. IValues have no dtypes and no symbols, so that sizes and
/// dtypes are integers.
c10::TypePtr stored_type(const c10::TypePtr& type);

/// A string in quotation marks, on one line.
std::string quoted_text(std::string_view text);
std::string parse_quoted(TextCursor& cursor);

} // namespace weft::graph
