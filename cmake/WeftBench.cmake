# bench/<name>_bench.cpp measures with Google Benchmark in one process; bench/<name>_main.cpp is a program of its own,
# which bench/run.py starts. The target `benches` builds them all, and the Python package, which some of them measure.
find_package(benchmark REQUIRED)
add_custom_target(benches)

file(GLOB _programs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*_bench.cpp" "${PROJECT_SOURCE_DIR}/bench/*_main.cpp")
# Counts instructions by calls into valgrind, and without its header is not built; bench/run.py then says so.
find_path(WEFT_VALGRIND_INCLUDE_DIR valgrind/callgrind.h)
mark_as_advanced(WEFT_VALGRIND_INCLUDE_DIR)
if(NOT WEFT_VALGRIND_INCLUDE_DIR)
  message(STATUS "weft: no valgrind, so the benchmark 'instructions' is left out")
  list(FILTER _programs EXCLUDE REGEX "/instructions_main\\.cpp$")
endif()
foreach(_program IN LISTS _programs)
  cmake_path(GET _program STEM _name)
  add_executable(${_name} "${_program}")
  target_link_libraries(${_name} PRIVATE weft)
  if(_name MATCHES "_bench$")
    target_link_libraries(${_name} PRIVATE benchmark::benchmark)
  endif()
  weft_use_pch(${_name})
  set_target_properties(${_name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bench")
  add_dependencies(benches ${_name})
endforeach()

if(TARGET weft_python)
  add_dependencies(benches weft_python)
endif()
