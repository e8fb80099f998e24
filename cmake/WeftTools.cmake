# The command weft. The target has another name, since the library is called weft.
find_package(CLI11 REQUIRED)
file(GLOB _sources CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/tools/*.cpp")
add_executable(weft_command ${_sources})
target_link_libraries(weft_command PRIVATE weft weft_models CLI11::CLI11)
weft_use_pch(weft_command)
set_target_properties(weft_command PROPERTIES
  OUTPUT_NAME weft
  RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin"
  INSTALL_RPATH "$ORIGIN/../${CMAKE_INSTALL_LIBDIR};${TORCH_INSTALL_PREFIX}/lib")
install(TARGETS weft_command)
