# One precompiled header for all targets: <ATen/ATen.h> alone takes most of the time of compiling a source.
add_library(weft_pch OBJECT cmake/pch.cpp)
target_link_libraries(weft_pch PRIVATE torch)
target_precompile_headers(weft_pch PRIVATE cmake/pch.h)

function(weft_use_pch target)
  target_precompile_headers(${target} REUSE_FROM weft_pch)
endfunction()
