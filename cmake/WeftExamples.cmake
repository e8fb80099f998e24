# examples/models holds the models that the examples train.
file(GLOB _models CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/models/*.cpp")
add_library(weft_models STATIC EXCLUDE_FROM_ALL ${_models})
target_link_libraries(weft_models PUBLIC weft)
set_source_files_properties("${PROJECT_SOURCE_DIR}/examples/models/plans.cpp" PROPERTIES
  COMPILE_DEFINITIONS "WEFT_EXAMPLE_PLANS=\"${PROJECT_SOURCE_DIR}/examples/plans\"")
weft_use_pch(weft_models)

# examples/<name>.cpp is a program of its own, written as a user would write it. The README's example is one of them.
if(WEFT_TESTS)
  file(GLOB _programs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cpp")
  foreach(_program IN LISTS _programs)
    cmake_path(GET _program STEM _name)
    add_executable(example_${_name} "${_program}")
    target_link_libraries(example_${_name} PRIVATE weft_models)
    weft_use_pch(example_${_name})
    set_target_properties(example_${_name} PROPERTIES
      OUTPUT_NAME ${_name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
  endforeach()
endif()
