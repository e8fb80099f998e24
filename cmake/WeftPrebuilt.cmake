# The wheel of a build that is there already, as `make wheel` and the test package/wheel make it.
install(CODE "execute_process(
  COMMAND \"${CMAKE_COMMAND}\" --install \"${WEFT_PREBUILT}\" --component python --prefix \"\${CMAKE_INSTALL_PREFIX}\"
  COMMAND_ERROR_IS_FATAL ANY)" COMPONENT python)
