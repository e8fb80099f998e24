# The sources below a folder of tests/ become one program, which compiles and links in a fraction of the time that a program
# per source would take. Every tests/<folder>/<name>_test.cpp is the ctest entry <folder>/<name> and runs in a process of its own.
find_package(GTest REQUIRED)

# What a test runs under. Torch is not instrumented: a race that only its code can see is no finding. A report that
# still has to be silenced goes, with the reason, into cmake/sanitizers/<tool>.supp, and only if it is not our code.
# The rates are given, so that no decision of a test depends on how busy the machine is.
set(WEFT_TEST_ENVIRONMENT OMP_NUM_THREADS=1 "WEFT_LINK=30us,2GB/s" "WEFT_COMPUTE=50Gflop/s,10GB/s,1us,15us,2GB/s")
set(WEFT_TEST_TIMEOUT 300)
if(WEFT_SANITIZE)
  set(WEFT_TEST_TIMEOUT 900)
  # CUDA wants the addresses that asan keeps free of everything.
  set(_asan_options "detect_stack_use_after_return=1:protect_shadow_gap=0")
  set(_lsan_options "print_suppressions=0")
  set(_ubsan_options "halt_on_error=1:print_stacktrace=1")
  set(_tsan_options "halt_on_error=1:second_deadlock_stack=1")
  foreach(_tool asan lsan ubsan tsan)
    set(_file "${PROJECT_SOURCE_DIR}/cmake/sanitizers/${_tool}.supp")
    if(EXISTS "${_file}")
      string(APPEND _${_tool}_options ":suppressions=${_file}")
    endif()
    string(TOUPPER "${_tool}_OPTIONS=" _variable)
    list(APPEND WEFT_TEST_ENVIRONMENT "${_variable}${_${_tool}_options}")
  endforeach()
endif()

# tests/support holds main() and what several tests share.
file(GLOB _support CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tests/support/*.cpp")
list(FILTER _support EXCLUDE REGEX "_test\\.cpp$")
if(_support)
  add_library(weft_test_support STATIC ${_support})
  target_link_libraries(weft_test_support PUBLIC weft GTest::gtest nlohmann_json::nlohmann_json)
  # Tests that start their ranks by torchrun take the one of this interpreter.
  set_source_files_properties("${PROJECT_SOURCE_DIR}/tests/support/process_ranks.cpp" PROPERTIES
    COMPILE_DEFINITIONS "WEFT_TEST_PYTHON=\"${WEFT_PYTHON}\"")
  weft_use_pch(weft_test_support)
else()
  add_library(weft_test_support INTERFACE)
  target_link_libraries(weft_test_support INTERFACE weft GTest::gtest_main)
endif()

# With a CUDA torch, what runs on ranks as threads is tested on the device too.
if(TARGET torch_cuda)
  add_compile_definitions(WEFT_TEST_CUDA)
endif()

# weft_tests(comm group_test.cpp world/gloo_test.cpp ...): the program of tests/comm, and a ctest entry for each of its tests.
function(weft_tests top)
  set(target "${top}_tests")
  list(TRANSFORM ARGN PREPEND "${PROJECT_SOURCE_DIR}/tests/${top}/" OUTPUT_VARIABLE sources)
  add_executable(${target} ${sources})
  target_link_libraries(${target} PRIVATE weft_test_support)
  weft_use_pch(${target})
  set_target_properties(${target} PROPERTIES RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/tests")
  foreach(source IN LISTS ARGN)
    if(source MATCHES "^(.+)_test\\.cpp$")
      set(name "${top}/${CMAKE_MATCH_1}")
      cmake_path(GET name PARENT_PATH folder)
      add_test(NAME ${name} COMMAND ${target} "--file=${source}")
      set_tests_properties(${name} PROPERTIES
        ENVIRONMENT "${WEFT_TEST_ENVIRONMENT}" TIMEOUT ${WEFT_TEST_TIMEOUT} LABELS "${folder}")
    endif()
  endforeach()
endfunction()
