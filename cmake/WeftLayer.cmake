# weft_layer(<name> [DEPENDS <layer>|<layer>/<stem> ...] [ALSO <stem>:<layer> ...])
#
# A layer is the folder weft/<name>. Its files may include
#   DEPENDS core             anything of weft/core;
#   DEPENDS redistribute/plan  only weft/redistribute/plan.h (or the folder of that name) of that layer;
#   ALSO execute:comm        in weft/<name>/execute.* (or the folder weft/<name>/execute) alone, weft/comm too. The other
#                            files of the layer may not include execute.h, so that what they promise holds for them whole.
# Edges are not transitive. scripts/check_layers.py enforces all this; here a layer becomes the object library
# weft_<name>, which goes into the shared library weft. Layers are declared bottom up, so there is no cycle.
function(weft_layer name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS;ALSO")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_layer(${name}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/weft/${name}/*.cpp")
  list(REMOVE_ITEM sources ${WEFT_EXCLUDED_SOURCES})
  if(NOT sources)
    message(FATAL_ERROR "weft_layer(${name}): weft/${name} has no sources")
  endif()

  set(target weft_${name})
  add_library(${target} OBJECT ${sources})
  target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
  target_link_libraries(${target} PUBLIC torch)
  weft_use_pch(${target})

  list(TRANSFORM arg_DEPENDS REPLACE "/.*" "")
  list(TRANSFORM arg_ALSO REPLACE ".*:" "")
  set(dependencies ${arg_DEPENDS} ${arg_ALSO})
  list(REMOVE_DUPLICATES dependencies)
  foreach(dependency IN LISTS dependencies)
    if(NOT TARGET weft_${dependency})
      message(FATAL_ERROR "weft_layer(${name}): the layer ${dependency} is not declared before it")
    endif()
    target_link_libraries(${target} PUBLIC weft_${dependency})
  endforeach()
  set_property(GLOBAL APPEND PROPERTY WEFT_LAYERS ${target})
endfunction()
