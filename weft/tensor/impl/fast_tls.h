#pragma once

/// For a small thread-local variable that every operator reads: the thread finds it by an offset instead of by a
/// function call. The memory for such variables is reserved when a program starts, with little room for libraries that
/// are loaded later.
#define WEFT_FAST_TLS __attribute__((tls_model("initial-exec")))
