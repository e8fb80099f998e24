#pragma once

namespace weft::testing {

/// From now on a system call fails in this process with EPERM, as by the profile of a container:
///
///   forbid_call(SYS_process_vm_readv);   // this process may not read the memory of another one
void forbid_call(long number);

/// A variable of a rank's environment: the number of a call that is forbidden before its role begins.
inline constexpr const char* kForbiddenCallVariable = "WEFT_TEST_FORBIDDEN_CALL";

} // namespace weft::testing
