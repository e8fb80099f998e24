# LibTorch is the one inside the Python package, so that a C++ program, the binding and Python share one library.
# Included and not a function: Torch's own files enable the language CUDA, which CMake allows at file scope only.
if(DEFINED ENV{WEFT_PYTHON})
  set(_python "$ENV{WEFT_PYTHON}")
elseif(SKBUILD)
  set(_python "${Python_EXECUTABLE}") # the one that runs pip
elseif(EXISTS "${PROJECT_SOURCE_DIR}/.venv/bin/python")
  set(_python "${PROJECT_SOURCE_DIR}/.venv/bin/python")
else()
  set(_python python3)
endif()
set(WEFT_PYTHON "${_python}" CACHE STRING "The Python interpreter whose torch is built against")

# Importing torch takes seconds, so it is asked once per interpreter. Where pip builds, torch is hidden by what it has set in
# the environment, and is found without that.
if(NOT WEFT_TORCH_ASKED STREQUAL WEFT_PYTHON)
  foreach(_environment "" -E)
    execute_process(
      COMMAND "${WEFT_PYTHON}" ${_environment} -W ignore -c "import torch; print(torch.utils.cmake_prefix_path)"
      OUTPUT_VARIABLE _prefix ERROR_VARIABLE _error RESULT_VARIABLE _failed OUTPUT_STRIP_TRAILING_WHITESPACE)
    if(NOT _failed)
      break()
    endif()
  endforeach()
  if(_failed)
    message(FATAL_ERROR "${WEFT_PYTHON} cannot import torch, against which Weft is built. Install it there first "
      "(`pip install torch`, or scripts/setup in a working copy), or set WEFT_PYTHON to an interpreter that has it.\n${_error}")
  endif()
  set(WEFT_TORCH_PREFIX "${_prefix}" CACHE INTERNAL "torch.utils.cmake_prefix_path")
  set(WEFT_TORCH_ASKED "${WEFT_PYTHON}" CACHE INTERNAL "the interpreter that was asked")
endif()

# TorchConfig.cmake warns that the static library kineto is missing, which no pip package has and we do not link.
set(kineto_LIBRARY "unused")
find_package(Torch REQUIRED CONFIG PATHS "${WEFT_TORCH_PREFIX}" NO_DEFAULT_PATH)

set(_supported 2.11 2.13)
string(REGEX MATCH "^[0-9]+\\.[0-9]+" _torch_minor "${Torch_VERSION}")
if(NOT _torch_minor IN_LIST _supported)
  list(JOIN _supported ", " _names)
  message(WARNING "torch ${Torch_VERSION} is untried: Weft is built and tested with ${_names}.")
endif()
message(STATUS "weft: torch ${Torch_VERSION} of ${WEFT_PYTHON}")
