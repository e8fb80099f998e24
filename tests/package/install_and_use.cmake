# Installs BUILD into a fresh prefix, then builds and runs the project in this folder against it alone.
set(work "${BUILD}/package_test")
file(REMOVE_RECURSE "${work}")

function(must)
  execute_process(COMMAND ${ARGV} COMMAND_ERROR_IS_FATAL ANY)
endfunction()

must(${CMAKE_COMMAND} --install "${BUILD}" --prefix "${work}/prefix")
must(${CMAKE_COMMAND} -S "${CMAKE_CURRENT_LIST_DIR}" -B "${work}/build" -G Ninja "-DCMAKE_PREFIX_PATH=${work}/prefix"
  "-DCMAKE_CXX_COMPILER=${COMPILER}")
must(${CMAKE_COMMAND} --build "${work}/build")
must("${work}/build/consumer")
if(EXISTS "${work}/prefix/bin/weft")
  must("${work}/prefix/bin/weft" --help)
endif()
