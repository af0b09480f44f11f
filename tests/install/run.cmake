# Installs the build into a folder that then holds nothing else, builds programs against it there, and runs them. Nobody needs
# libraries for what it does not use. What did not change since the last run is not compiled again.
#   cmake -DBUILD=... -DSOURCE=... -DWORK=... -DCOMPILER=... -DTORCH=... -DPYTHON=... -P run.cmake
function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${ARGN} failed:\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

run("${CMAKE_COMMAND}" --install "${BUILD}" --prefix "${WORK}/prefix")
file(STRINGS "${BUILD}/install_manifest.txt" _installed)
file(GLOB_RECURSE _held "${WORK}/prefix/*")
list(REMOVE_ITEM _held ${_installed})
if(_held)
  file(REMOVE ${_held})
endif()
file(REMOVE_RECURSE "${WORK}/user/run" "${WORK}/layer-alone")
# From a copy, so that nothing of the source tree is in reach.
file(COPY "${SOURCE}/program.cpp" "${SOURCE}/trainer.cpp" "${SOURCE}/average_precision.cpp" "${SOURCE}/../../examples/own_task.cpp"
     "${SOURCE}/CMakeLists.txt" DESTINATION "${WORK}/user")
# without(VARIABLE PACKAGES...): options for CMake, as on a machine without these libraries.
function(without variable)
  list(TRANSFORM ARGN REPLACE "(.+)" "-DCMAKE_DISABLE_FIND_PACKAGE_\\1=ON")
  set(${variable} ${ARGN} PARENT_SCOPE)
endfunction()
function(build_user folder)
  run("${CMAKE_COMMAND}" -S "${WORK}/user" -B "${folder}" -G Ninja "-DCMAKE_PREFIX_PATH=${WORK}/prefix"
      "-DCMAKE_CXX_COMPILER=${COMPILER}" ${ARGN})
  run("${CMAKE_COMMAND}" --build "${folder}")
endfunction()

without(_no_web CURL OpenSSL LibArchive)
without(_no_images JPEG PNG ZLIB pugixml hwy)
build_user("${WORK}/user/layer" -DCOMPONENT= ${_no_web} ${_no_images})
build_user("${WORK}/user/build" -DCOMPONENT=train ${_no_web})
without(_no_torch LibTorch OpenMP)
build_user("${WORK}/user/metrics" -DCOMPONENT=metrics ${_no_web} ${_no_images} ${_no_torch})

# Who builds the layer alone needs no more than its user. Highway is in its kernels.
list(REMOVE_ITEM _no_images -DCMAKE_DISABLE_FIND_PACKAGE_hwy=ON)
run("${CMAKE_COMMAND}" -S "${SOURCE}/../.." -B "${WORK}/layer-alone" -G Ninja "-DCMAKE_CXX_COMPILER=${COMPILER}"
    "-DFRN_TORCH_DIR=${TORCH}" -DFRN_BUILD_TRAINING=OFF ${_no_web} ${_no_images})
file(STRINGS "${WORK}/layer-alone/build.ninja" _built REGEX "^build (lib/libfrn_(data|train|fetch|report)\\.a|bin/frn):")
if(_built)
  message(FATAL_ERROR "FRN_BUILD_TRAINING=OFF still builds: ${_built}")
endif()

run("${WORK}/user/layer/program")
if(NOT output MATCHES "\\[2, 64, 56, 56\\], gradient of tau \\[64\\]")
  message(FATAL_ERROR "the program printed: ${output}")
endif()
run("${WORK}/user/metrics/average_precision")
if(NOT output MATCHES "AP50 1, AP75 0")
  message(FATAL_ERROR "average_precision printed: ${output}")
endif()
run("${WORK}/user/build/trainer" "${WORK}/user/run")
if(NOT output MATCHES "finished after step 3" OR NOT EXISTS "${WORK}/user/run/checkpoints/step-3/model.safetensors")
  message(FATAL_ERROR "the trainer printed: ${output}")
endif()
run("${WORK}/prefix/bin/frn" info system)
if(NOT output MATCHES "reference")
  message(FATAL_ERROR "the installed frn printed: ${output}")
endif()

# A task, a model, a set and an optimiser of the user's own.
run("${PYTHON}" "${SOURCE}/../e2e/own_task.py" "${WORK}/user/build/own_task" "${WORK}/prefix/bin/frn")
