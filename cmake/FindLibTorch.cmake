# Finds LibTorch's CPU libraries in a torch wheel, an installed Python torch or a LibTorch folder, and makes the
# imported target frn::libtorch. PyTorch's own package would ask for a whole CUDA toolkit when the wheel has CUDA in it.
#
# Input: FRN_TORCH_DIR (the folder with include/ and lib/), else `python3` is asked; FRN_CUDA: also its CUDA libraries and
# NCCL's headers, of a wheel's neighbours or the system. Sets LibTorch_FOUND, LibTorch_VERSION.

set(_frn_torch_hint "${FRN_TORCH_DIR}")
if(NOT _frn_torch_hint)
  foreach(_python IN ITEMS "${FRN_PYTHON}" python3)
    execute_process(
      COMMAND "${_python}" -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
      OUTPUT_VARIABLE _frn_torch_hint OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    if(_frn_torch_hint)
      break()
    endif()
  endforeach()
endif()

find_path(LibTorch_INCLUDE_DIR ATen/ATen.h HINTS "${_frn_torch_hint}/include" NO_DEFAULT_PATH)
find_library(LibTorch_CPU_LIBRARY torch_cpu HINTS "${_frn_torch_hint}/lib" NO_DEFAULT_PATH)
find_library(LibTorch_C10_LIBRARY c10 HINTS "${_frn_torch_hint}/lib" NO_DEFAULT_PATH)

set(LibTorch_VERSION "")
if(LibTorch_INCLUDE_DIR)
  file(STRINGS "${LibTorch_INCLUDE_DIR}/torch/headeronly/version.h" _frn_torch_version
       REGEX "#define TORCH_VERSION_(MAJOR|MINOR|PATCH) +[0-9]+")
  string(REGEX MATCHALL "[0-9]+" _frn_torch_version "${_frn_torch_version}")
  string(REPLACE ";" "." LibTorch_VERSION "${_frn_torch_version}")
endif()

set(_frn_torch_required LibTorch_CPU_LIBRARY LibTorch_C10_LIBRARY LibTorch_INCLUDE_DIR)
if(FRN_CUDA)
  file(GLOB _frn_nvidia "${_frn_torch_hint}/../nvidia/*/include")
  find_library(LibTorch_CUDA_LIBRARY torch_cuda HINTS "${_frn_torch_hint}/lib" NO_DEFAULT_PATH)
  find_library(LibTorch_C10_CUDA_LIBRARY c10_cuda HINTS "${_frn_torch_hint}/lib" NO_DEFAULT_PATH)
  find_path(CUDA_INCLUDE_DIR cuda_runtime_api.h HINTS ${_frn_nvidia} /usr/local/cuda/include)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${_frn_nvidia})
  list(APPEND _frn_torch_required LibTorch_CUDA_LIBRARY LibTorch_C10_CUDA_LIBRARY CUDA_INCLUDE_DIR NCCL_INCLUDE_DIR)
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(LibTorch
  REQUIRED_VARS ${_frn_torch_required}
  VERSION_VAR LibTorch_VERSION
  REASON_FAILURE_MESSAGE "run tools/setup.sh, or pass -DFRN_TORCH_DIR=<folder with include/ and lib/>")

if(LibTorch_FOUND AND NOT TARGET frn::libtorch)
  find_package(OpenMP REQUIRED COMPONENTS CXX)
  add_library(frn::libtorch INTERFACE IMPORTED)
  # SYSTEM and after our own: LibTorch's headers warn, and its folder also holds copies of other libraries' headers.
  target_include_directories(frn::libtorch SYSTEM INTERFACE
    "${LibTorch_INCLUDE_DIR}" "${LibTorch_INCLUDE_DIR}/torch/csrc/api/include")
  # --no-as-needed: the kernels inside libtorch_cpu register themselves when it is loaded, whatever symbols we use.
  target_link_libraries(frn::libtorch INTERFACE
    -Wl,--no-as-needed "${LibTorch_CPU_LIBRARY}" "${LibTorch_C10_LIBRARY}" -Wl,--as-needed)
  if(FRN_CUDA)
    target_link_libraries(frn::libtorch INTERFACE
      -Wl,--no-as-needed "${LibTorch_CUDA_LIBRARY}" "${LibTorch_C10_CUDA_LIBRARY}" -Wl,--as-needed)
  endif()
  # at::parallel_for is a header with an OpenMP region in it. One process must have one OpenMP runtime: take the one that
  # LibTorch brings, else the compiler's.
  target_compile_options(frn::libtorch INTERFACE ${OpenMP_CXX_FLAGS})
  get_filename_component(_frn_torch_lib "${LibTorch_CPU_LIBRARY}" DIRECTORY)
  file(GLOB _frn_torch_gomp "${_frn_torch_lib}/libgomp*.so*")
  if(_frn_torch_gomp)
    target_link_libraries(frn::libtorch INTERFACE ${_frn_torch_gomp})
  else()
    target_link_libraries(frn::libtorch INTERFACE ${OpenMP_CXX_LIBRARIES})
  endif()
  # Libraries that libtorch_cpu itself needs (its CUDA runtime wheels) are found by its own run path, not at our link.
  target_link_options(frn::libtorch INTERFACE -Wl,--allow-shlib-undefined "-Wl,-rpath-link,${_frn_torch_lib}")
endif()
