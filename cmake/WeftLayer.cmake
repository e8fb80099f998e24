# weft_layer(<folder> [DEPENDS <layer>|<layer>/<stem> ...] [ALSO <stem>:<layer> ...])
#
# A layer is the folder weft/<folder>, without the folders in it: those are layers of their own. Its files may include
#   DEPENDS core             anything of weft/core;
#   DEPENDS redistribute/plan  only weft/redistribute/plan.h of that layer;
#   ALSO execute:comm        in weft/<folder>/execute.* alone, weft/comm too. The other files of the layer may not include
#                            execute.h, so that what they promise holds for them.
# Edges are not transitive. Layers are declared bottom up, so that there is no cycle. scripts/check_layers.py enforces all
# this. Here the layers of one top folder become one object library, weft_<top folder>, because few large unity batches
# compile in less time than many small ones; all of them go into the shared library weft.
function(weft_layer folder)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "DEPENDS;ALSO")
  if(arg_UNPARSED_ARGUMENTS)
    message(FATAL_ERROR "weft_layer(${folder}): unexpected ${arg_UNPARSED_ARGUMENTS}")
  endif()
  file(GLOB sources CONFIGURE_DEPENDS RELATIVE "${PROJECT_SOURCE_DIR}" "${PROJECT_SOURCE_DIR}/weft/${folder}/*.cpp")
  list(REMOVE_ITEM sources ${WEFT_EXCLUDED_SOURCES})
  if(NOT sources)
    message(FATAL_ERROR "weft_layer(${folder}): weft/${folder} has no sources")
  endif()

  string(REGEX REPLACE "/.*" "" top "${folder}")
  set(target weft_${top})
  if(TARGET ${target})
    target_sources(${target} PRIVATE ${sources})
  else()
    add_library(${target} OBJECT ${sources})
    target_include_directories(${target} PUBLIC "${PROJECT_SOURCE_DIR}")
    target_link_libraries(${target} PUBLIC torch)
    weft_use_pch(${target})
    set_property(GLOBAL APPEND PROPERTY WEFT_LAYERS ${target})
  endif()
endfunction()
