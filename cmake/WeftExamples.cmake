# examples/<name>.cpp is a program of its own, written as a user would write it. The README's example is one of them.
file(GLOB _programs CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/examples/*.cpp")
foreach(_program IN LISTS _programs)
  cmake_path(GET _program STEM _name)
  add_executable(example_${_name} "${_program}")
  target_link_libraries(example_${_name} PRIVATE weft)
  weft_use_pch(example_${_name})
  set_target_properties(example_${_name} PROPERTIES
    OUTPUT_NAME ${_name} RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/examples")
endforeach()
