# Flags for everything we compile. They are set for the directory and not per target, because a precompiled
# header is usable only where the flags are the same.
option(WEFT_WARNINGS_AS_ERRORS "Turn warnings in our own code into errors" OFF)
set(WEFT_SANITIZE "" CACHE STRING "Sanitizers to build with: empty, 'address,undefined' or 'thread'")

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# Not for CUDA: nvcc does not know these options.
function(weft_compile_options)
  foreach(option IN LISTS ARGN)
    add_compile_options("$<$<COMPILE_LANGUAGE:CXX>:${option}>")
  endforeach()
endfunction()

# Executables too: CMake would give them -fPIE, and GCC refuses a precompiled header made with -fPIC there.
weft_compile_options(-fPIC)

weft_compile_options(-Wall -Wextra -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual)
if(WEFT_WARNINGS_AS_ERRORS)
  weft_compile_options(-Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # What the optimizer guesses after inlining ATen and std::string is often wrong in GCC 12 and 13.
  weft_compile_options(-Wno-restrict -Wno-maybe-uninitialized -Wno-array-bounds -Wno-stringop-overflow
    -Wno-stringop-overread)
  # In a unity build every source is an included file, where GCC takes a type of an unnamed namespace for a mistake.
  weft_compile_options(-Wno-subobject-linkage)
  # Lets ccache see through a precompiled header.
  weft_compile_options(-fpch-preprocess)
endif()

if(WEFT_SANITIZE)
  weft_compile_options("-fsanitize=${WEFT_SANITIZE}" -fno-omit-frame-pointer)
  add_link_options(-fsanitize=${WEFT_SANITIZE})
endif()

find_program(CCACHE_PROGRAM ccache)
mark_as_advanced(CCACHE_PROGRAM)
if(CCACHE_PROGRAM AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  # ccache refuses a precompiled header unless told that these differences are harmless.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime ${CCACHE_PROGRAM})
endif()
