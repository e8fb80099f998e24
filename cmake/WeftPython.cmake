# The Python package weft. Built into <build>/python/weft, so that PYTHONPATH=<build>/python is all that is needed to use
# it; `pip install .` takes the same files. pybind11 is the one inside torch's headers: extensions share its registry of
# types with torch only if both are compiled with the same one.
set(_source "${PROJECT_SOURCE_DIR}/python")
set(_package_dir "${PROJECT_BINARY_DIR}/python/weft")

execute_process(
  COMMAND "${WEFT_PYTHON}" -I -c
    "import sysconfig as s; print(s.get_path('include')); print(s.get_config_var('EXT_SUFFIX'))"
  OUTPUT_VARIABLE _answer OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
string(REPLACE "\n" ";" _answer "${_answer}")
list(GET _answer 0 _python_include)
list(GET _answer 1 _suffix)
if(NOT EXISTS "${_python_include}/Python.h")
  message(STATUS "weft: Python package off, its tests are not run (${_python_include}/Python.h not found)")
  return()
endif()
find_library(WEFT_TORCH_PYTHON_LIBRARY torch_python PATHS "${TORCH_INSTALL_PREFIX}/lib" NO_DEFAULT_PATH REQUIRED)
mark_as_advanced(WEFT_TORCH_PYTHON_LIBRARY)

file(GLOB _bindings CONFIGURE_DEPENDS "${_source}/bindings/*.cpp")
add_library(weft_python MODULE ${_bindings})
target_include_directories(weft_python PRIVATE "${PROJECT_SOURCE_DIR}")
target_include_directories(weft_python SYSTEM PRIVATE "${_python_include}")
target_link_libraries(weft_python PRIVATE weft "${WEFT_TORCH_PYTHON_LIBRARY}")
target_compile_definitions(weft_python PRIVATE TORCH_EXTENSION_NAME=_C WEFT_VERSION="${PROJECT_VERSION}")
target_precompile_headers(weft_python PRIVATE "${PROJECT_SOURCE_DIR}/cmake/pch.h" "<torch/csrc/utils/pybind.h>")
set_target_properties(weft_python PROPERTIES
  OUTPUT_NAME _C PREFIX "" SUFFIX "${_suffix}"
  CXX_VISIBILITY_PRESET hidden
  LIBRARY_OUTPUT_DIRECTORY "${_package_dir}")
file(CONFIGURE OUTPUT "${_package_dir}/_built_with.py" CONTENT "TORCH_VERSION = \"${Torch_VERSION}\"\n")

# Python files are linked, not copied: an edit needs no build.
file(GLOB_RECURSE _modules RELATIVE "${_source}/weft" CONFIGURE_DEPENDS
  "${_source}/weft/*.py" "${_source}/weft/*.pyi" "${_source}/weft/py.typed")
foreach(_module IN LISTS _modules)
  cmake_path(GET _module PARENT_PATH _folder)
  file(MAKE_DIRECTORY "${_package_dir}/${_folder}")
  file(CREATE_LINK "${_source}/weft/${_module}" "${_package_dir}/${_module}" SYMBOLIC)
endforeach()
message(STATUS "weft: Python package on")

# The wheel: one folder with the library, the module next to it, and the command. Torch is expected next to the package, else
# where it was found.
set_target_properties(weft_python PROPERTIES INSTALL_RPATH "$ORIGIN;$ORIGIN/../torch/lib;${TORCH_INSTALL_PREFIX}/lib")
install(TARGETS weft weft_python LIBRARY DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
install(FILES "${_package_dir}/_built_with.py" DESTINATION . COMPONENT python EXCLUDE_FROM_ALL)
if(TARGET weft_command)
  install(TARGETS weft_command RUNTIME DESTINATION bin COMPONENT python EXCLUDE_FROM_ALL)
endif()
