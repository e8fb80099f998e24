# All layers as one shared library, and its CMake package: find_package(weft), target weft::weft.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

get_property(_layers GLOBAL PROPERTY WEFT_LAYERS)
list(TRANSFORM _layers REPLACE "(.+)" "$<TARGET_OBJECTS:\\1>" OUTPUT_VARIABLE _objects)
add_library(weft SHARED ${_objects})
add_library(weft::weft ALIAS weft)
# The C++ library is linked before torch, because torch's libraries export parts of the version that they were linked with,
# std::filesystem for one, which crash with ours; the linker takes a symbol from the first library that has it. It is linked
# by its path, because a compiler that does not find the shared library takes the archive: libweft would hold a second copy,
# whose streams crash on the locales of the copy that Python and torch share.
find_library(WEFT_CXX_LIBRARY libstdc++.so.6 HINTS ${CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
mark_as_advanced(WEFT_CXX_LIBRARY)
target_link_libraries(weft PUBLIC "${WEFT_CXX_LIBRARY}" torch)
target_compile_features(weft PUBLIC cxx_std_20)
target_include_directories(weft PUBLIC
  "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
set_target_properties(weft PROPERTIES
  LINKER_LANGUAGE CXX
  LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib"
  # Torch is expected next to the package in a wheel, else where it was found. That is named, because CMake's own list of link
  # paths leaves out what is below the source folder, as .venv is.
  INSTALL_RPATH "$ORIGIN/../torch/lib;${TORCH_INSTALL_PREFIX}/lib")

set(_package "${CMAKE_INSTALL_LIBDIR}/cmake/weft")
install(TARGETS weft EXPORT weftTargets)
install(DIRECTORY weft DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}" FILES_MATCHING PATTERN "*.h")
install(EXPORT weftTargets NAMESPACE weft:: DESTINATION "${_package}")
configure_package_config_file(cmake/weftConfig.cmake.in weftConfig.cmake INSTALL_DESTINATION "${_package}")
write_basic_package_version_file(weftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/weftConfig.cmake" "${PROJECT_BINARY_DIR}/weftConfigVersion.cmake"
  DESTINATION "${_package}")
