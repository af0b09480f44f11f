# Installs the build into an empty folder, builds the program against it there, and runs it.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DCOMPILER=... -P run.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN} failed:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE "${WORK}")
run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
# From a copy, so that nothing of the source tree is in reach.
file(COPY "${SOURCE}/program.cpp" "${SOURCE}/trainer.cpp" "${SOURCE}/CMakeLists.txt" DESTINATION "${WORK}/user")
run("${CMAKE_COMMAND}" -S "${WORK}/user" -B "${WORK}/user/build" -G Ninja "-DCMAKE_PREFIX_PATH=${WORK}/prefix"
    "-DCMAKE_CXX_COMPILER=${COMPILER}")
run("${CMAKE_COMMAND}" --build "${WORK}/user/build")
run("${WORK}/user/build/program")
if(NOT output MATCHES "\\[2, 64, 56, 56\\], gradient of tau \\[64\\]")
  message(FATAL_ERROR "the program printed: ${output}")
endif()
run("${WORK}/user/build/trainer" "${WORK}/user/run")
if(NOT output MATCHES "finished after step 3" OR NOT EXISTS "${WORK}/user/run/checkpoints/step-3/model.safetensors")
  message(FATAL_ERROR "the trainer printed: ${output}")
endif()
run("${WORK}/prefix/bin/frn" info system)
if(NOT output MATCHES "reference")
  message(FATAL_ERROR "the installed frn printed: ${output}")
endif()
