# bench/<name>_bench.cpp measures with Google Benchmark in one process; bench/<name>_main.cpp is a program of its own,
# which bench/run.py starts once per rank. The target `benches` builds them all.
find_package(benchmark REQUIRED)
add_custom_target(benches)

file(GLOB _programs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/bench/*_bench.cpp" "${PROJECT_SOURCE_DIR}/bench/*_main.cpp")
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
