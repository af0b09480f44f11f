# Compiles CUDA sources with nvcc where there is one. Not CMake's own CUDA language: it would ask every configure for a compiler
# that only the preset `cuda` and some tests use.
find_program(FRN_NVCC nvcc HINTS /usr/local/cuda/bin "$ENV{CUDA_HOME}/bin" DOC "NVIDIA's compiler")

# As the host's code: one rounding rule, no contraction that the source does not spell.
set(FRN_NVCC_OPTIONS -std=c++20 -O3 -fmad=false "-I${PROJECT_SOURCE_DIR}")
# The architectures of the torch wheel, and PTX for what comes after them.
set(FRN_CUDA_ARCHITECTURES 75 80 86 90 100 120 CACHE STRING "Architectures of the CUDA kernels")

# frn/kernels/cuda has a source per type.
set(FRN_TYPES f32 f64 bf16 f16)

file(GLOB _frn_cuda_headers CONFIGURE_DEPENDS "${PROJECT_SOURCE_DIR}/frn/kernels/cuda/*.h" "${PROJECT_SOURCE_DIR}/frn/kernels/cuda/*.cuh")
list(APPEND _frn_cuda_headers "${PROJECT_SOURCE_DIR}/frn/kernels/types.h")

# frn_nvcc(OUTPUT SOURCE OPTIONS...): a rule that makes OUTPUT.
function(frn_nvcc output source)
  get_filename_component(_folder "${output}" DIRECTORY)
  add_custom_command(OUTPUT "${output}"
    COMMAND "${CMAKE_COMMAND}" -E make_directory "${_folder}"
    COMMAND "${FRN_NVCC}" ${FRN_NVCC_OPTIONS} ${ARGN} "${source}" -o "${output}"
    DEPENDS "${source}" ${_frn_cuda_headers}
    COMMENT "Compiling ${output} with nvcc" VERBATIM)
endfunction()

# frn_cuda_kernels(TARGET SOURCES...): compiles CUDA sources for all architectures into a target, with the shared run-time
# library that LibTorch brings.
function(frn_cuda_kernels target)
  set(_options -Xcompiler -fPIC,-fvisibility=hidden)
  foreach(_architecture IN LISTS FRN_CUDA_ARCHITECTURES)
    list(APPEND _options -gencode "arch=compute_${_architecture},code=sm_${_architecture}")
  endforeach()
  list(GET FRN_CUDA_ARCHITECTURES -1 _latest)
  list(APPEND _options -gencode "arch=compute_${_latest},code=compute_${_latest}")
  foreach(_source IN LISTS ARGN)
    get_filename_component(_name "${_source}" NAME_WE)
    set(_object "${CMAKE_CURRENT_BINARY_DIR}/cuda/${_name}.o")
    frn_nvcc("${_object}" "${_source}" -c ${_options})
    target_sources(${target} PRIVATE "${_object}")
    set_source_files_properties("${_object}" PROPERTIES EXTERNAL_OBJECT ON GENERATED ON)
  endforeach()
  get_filename_component(_torch "${LibTorch_CPU_LIBRARY}" DIRECTORY)
  get_filename_component(_toolkit "${FRN_NVCC}" DIRECTORY)
  file(GLOB _folders "${_torch}/../../nvidia/*/lib")
  find_library(FRN_CUDA_RUNTIME NAMES libcudart.so.13 cudart HINTS ${_folders} "${_toolkit}/../lib64")
  if(NOT FRN_CUDA_RUNTIME)
    message(FATAL_ERROR "libcudart was not found beside LibTorch or nvcc; pass -DFRN_CUDA_RUNTIME=<file>")
  endif()
  target_link_libraries(${target} PRIVATE "${FRN_CUDA_RUNTIME}")
endfunction()
