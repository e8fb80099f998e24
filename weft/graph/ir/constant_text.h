#pragma once

#include "weft/core/text_cursor.h"

#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>

namespace weft::graph {

/// A constant of a program as text, that parses back exactly. What its place in a schema is of decides how an integer is
/// written and what an empty list is a list of:
///
///   3   1.0   1e-05   -inf   complex(0.0, 1.0)   True   None   "a \"name\""   [2, 2]   f32   strided   channels_last   cuda:0
///
/// In the place of a tensor a number is one that stands for it (a wrapped number, as `x + 1` has it).
/// What has no text (a generator, any other tensor) is shown in angle brackets and does not parse.
std::string constant_text(const c10::IValue& value, const c10::Type& type);
c10::IValue parse_constant(TextCursor& cursor, const c10::TypePtr& type);

/// The type without "or None".
const c10::Type& without_none(const c10::Type& type);
/// What a list is a list of; anything where it is no list.
c10::TypePtr element_type(const c10::Type& type);

/// What a list of these is made of in an IValue, which knows no dtypes and no symbols: sizes and dtypes are integers.
c10::TypePtr stored_type(const c10::TypePtr& type);

/// A string between quotation marks, on one line.
std::string quoted_text(std::string_view text);
std::string parse_quoted(TextCursor& cursor);

} // namespace weft::graph
