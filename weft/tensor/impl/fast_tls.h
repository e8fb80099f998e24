#pragma once

/// A small thread-local variable that every operator reads: found by an offset instead of by a function call. The memory
/// for such variables is set aside when a program starts, with room for few from libraries that are loaded later.
#define WEFT_FAST_TLS __attribute__((tls_model("initial-exec")))
