# The command weft. The target has another name, since the library is called weft.
if(SKBUILD)
  find_package(CLI11 QUIET)
  if(NOT CLI11_FOUND)
    message(STATUS "weft: no CLI11, so the wheel is built without the command")
    return()
  endif()
else()
  find_package(CLI11 REQUIRED)
endif()
file(GLOB _sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/*.cpp")
add_executable(weft_command ${_sources})
target_link_libraries(weft_command PRIVATE weft nlohmann_json::nlohmann_json CLI11::CLI11)
weft_use_pch(weft_command)

# The page that `weft explain --html` writes is inside the command, as a string.
set(_page "${PROJECT_SOURCE_DIR}/tools/explain_page.html")
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS "${_page}")
file(READ "${_page}" _text)
file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/tools/explain_page_html.h"
  CONTENT "#pragma once\ninline constexpr const char* kExplainPage = R\"weft(${_text})weft\";\n")
target_include_directories(weft_command PRIVATE "${PROJECT_BINARY_DIR}/tools")
set_target_properties(weft_command PROPERTIES
  OUTPUT_NAME weft
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
  # The library is in a folder of its own, and in a wheel the package's.
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};$ORIGIN/..;$ORIGIN/../../torch/lib;${TORCH_INSTALL_PREFIX}/lib")
install(TARGETS weft_command)
