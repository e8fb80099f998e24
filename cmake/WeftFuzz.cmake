# The fuzzers fuzz/<name>_fuzz.cpp, by libFuzzer, which is Clang's. They are built of the sources that read files alone, with
# sanitizers; torch is as it is. `make fuzz` runs them over fuzz/corpus/<name>.
if(NOT CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  message(FATAL_ERROR "weft: the fuzzers need Clang, but the compiler is ${CMAKE_CXX_COMPILER_ID}. Use the preset fuzz.")
endif()

file(GLOB _sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/weft/core/*.cpp" "${PROJECT_SOURCE_DIR}/weft/files/*.cpp"
  "${PROJECT_SOURCE_DIR}/weft/graph/pt2/*.cpp")
list(FILTER _sources EXCLUDE REGEX "/graph/pt2/writ")
list(APPEND _sources weft/redistribute/step.cpp)
foreach(_source huggingface key_map manifest read_plan stored_tensors)
  list(APPEND _sources weft/checkpoint/${_source}.cpp)
endforeach()
foreach(_source constant_text graph module_stack name_table node_error scalar_function size type)
  list(APPEND _sources weft/graph/ir/${_source}.cpp)
endforeach()

add_library(weft_fuzzed OBJECT ${_sources})
target_include_directories(weft_fuzzed PUBLIC "${PROJECT_SOURCE_DIR}")
target_link_libraries(weft_fuzzed PUBLIC torch nlohmann_json::nlohmann_json)
# Without it a fuzzer gets no further than to the first checksum (weft/graph/pt2/archive.cpp, weft/files/checked_json.cpp).
target_compile_definitions(weft_fuzzed PRIVATE FUZZING_BUILD_MODE_UNSAFE_FOR_PRODUCTION)
target_precompile_headers(weft_fuzzed PRIVATE cmake/pch.h)
# vptr and function compare types across libraries, which torch does not export.
target_compile_options(weft_fuzzed PUBLIC
  -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize=vptr,function -fno-sanitize-recover=all)
target_link_options(weft_fuzzed PUBLIC -fsanitize=fuzzer,address,undefined)

add_custom_target(fuzzers)
file(GLOB _fuzzers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/fuzz/*_fuzz.cpp")
foreach(_fuzzer IN LISTS _fuzzers)
  cmake_path(GET _fuzzer STEM _name)
  add_executable(${_name} "${_fuzzer}")
  target_link_libraries(${_name} PRIVATE weft_fuzzed)
  set_target_properties(${_name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/fuzz")
  add_dependencies(fuzzers ${_name})
endforeach()
