# Settings that every target of the project shares, and the function that makes one target per folder.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/bin")
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
set(CMAKE_ARCHIVE_OUTPUT_DIRECTORY "${PROJECT_BINARY_DIR}/lib")
# The program and the libraries find each other and LibTorch wherever the install prefix is moved to.
set(CMAKE_INSTALL_RPATH "$ORIGIN;$ORIGIN/../${CMAKE_INSTALL_LIBDIR}")
set(CMAKE_INSTALL_RPATH_USE_LINK_PATH ON)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "" FORCE)
endif()

# The launcher uses ccache where there is one. It is always the same command, so that installing ccache builds nothing anew.
option(FRN_CCACHE "Compile through ccache where it is installed" ON)
if(FRN_CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${PROJECT_SOURCE_DIR}/tools/compiler-launcher")
endif()

# Debian's fmt, linked: its headers alone take seconds in every source. LibTorch's folder holds another version of them, so
# ours are named first.
find_package(fmt REQUIRED)
get_target_property(_fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
list(GET _fmt_include 0 _fmt_include)
set(FRN_INCLUDE_FIRST "${PROJECT_BINARY_DIR}/include-first")
file(MAKE_DIRECTORY "${FRN_INCLUDE_FIRST}")
file(CREATE_LINK "${_fmt_include}/fmt" "${FRN_INCLUDE_FIRST}/fmt" SYMBOLIC)

add_library(frn_settings INTERFACE)
target_compile_options(frn_settings INTERFACE -Wall -Wextra)
# Not for users: a newer compiler finds more to warn of.
option(FRN_WERROR "Warnings are errors (what CI and make lint build with)" OFF)
if(FRN_WERROR)
  target_compile_options(frn_settings INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 warns wrongly inside its own AVX-512 intrinsics (uninitialised) and its own std::string (restrict).
  target_compile_options(frn_settings INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
endif()
# One rounding rule everywhere: no contraction that the source does not spell as a fused multiply-add.
target_compile_options(frn_settings INTERFACE -ffp-contract=off)
# Programs too, so that they can share a precompiled header with the libraries.
target_compile_options(frn_settings INTERFACE -fPIC)
target_include_directories(frn_settings INTERFACE "${PROJECT_SOURCE_DIR}" "${PROJECT_BINARY_DIR}/generated")
configure_file("${PROJECT_SOURCE_DIR}/cmake/version.h.in" "${PROJECT_BINARY_DIR}/generated/frn/version.h" @ONLY)
target_include_directories(frn_settings SYSTEM INTERFACE "${FRN_INCLUDE_FIRST}")
# Messages with a place in the source name it from the top of the project, not from this machine's root.
target_compile_options(frn_settings INTERFACE "-fmacro-prefix-map=${PROJECT_SOURCE_DIR}/=")
# LibTorch's headers then include the operators that they use, not all of them.
target_compile_definitions(frn_settings INTERFACE AT_PER_OPERATOR_HEADERS)
# Without NDEBUG some classes of LibTorch's headers have members that the wheel's library does not know of (RecordFunction, which
# frn/onnx listens to). CMake's Release has it anyway.
target_compile_definitions(frn_settings INTERFACE $<$<NOT:$<CONFIG:Release>>:NDEBUG>)
# Compiling takes half as long as with -O3, and only what runs hot would gain from that: frn_hot.
target_compile_options(frn_settings INTERFACE $<$<CONFIG:Release>:-O1>)
if(FRN_SANITIZE)
  # Less optimisation and debug information, to compile faster; traces still name lines. The tests run a third slower.
  target_compile_options(frn_settings INTERFACE -fsanitize=${FRN_SANITIZE} -fno-omit-frame-pointer -O1 -g1)
  target_link_options(frn_settings INTERFACE -fsanitize=${FRN_SANITIZE})
  if(FRN_SANITIZE MATCHES "undefined" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Checks at every use of a pointer double the time to compile LibTorch's headers. The address sanitizer ends at a null
    # pointer too, and the fuzzers, which have no LibTorch, look at alignment.
    target_compile_options(frn_settings INTERFACE -fno-sanitize=null,vptr,object-size,alignment)
  endif()
  if(FRN_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # LibTorch's headers have a fence that gcc's thread sanitizer does not see: it may report too much there, not too little.
    target_compile_options(frn_settings INTERFACE -Wno-tsan)
  endif()
endif()

# Linked after frn_settings, so that its -O3 comes after that -O1 and wins.
add_library(frn_hot_settings INTERFACE)
target_compile_options(frn_hot_settings INTERFACE $<$<CONFIG:Release>:-O3>)

# frn_without_torch_headers(SOURCES...): sources of a folder with TORCH_HEADERS that do not need them.
function(frn_without_torch_headers)
  set_source_files_properties(${ARGN} PROPERTIES SKIP_PRECOMPILE_HEADERS ON SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

# frn_hot(SOURCES...): sources of this folder whose own loops take a share of a training step. Without the precompiled header:
# gcc 12 crashes when one made with -O1 is used with -O3.
function(frn_hot)
  frn_without_torch_headers(${ARGN})
  set_property(SOURCE ${ARGN} APPEND PROPERTY COMPILE_OPTIONS $<$<CONFIG:Release>:-O3>)
endfunction()

# One precompiled header for all that uses torch::nn, made by the target frn_torch_headers.
function(frn_use_torch_headers target)
  target_precompile_headers(${target} REUSE_FROM frn_torch_headers)
endfunction()

# Every source reads its headers and instantiates their templates for seconds: a few at a time share that.
set(FRN_SOURCES_AT_ONCE 8 CACHE STRING "Sources of a folder that are compiled as one (0: all)")
function(frn_compile_together target)
  set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE ${FRN_SOURCES_AT_ONCE})
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # It takes sources that are compiled together for headers.
    target_compile_options(${target} PRIVATE -Wno-subobject-linkage)
  endif()
endfunction()

# Gives `result` the headers of this folder that match the patterns of PUBLIC_HEADERS and are not in PRIVATE_HEADERS. Every
# name must be that of a file: a list must not outlive what it names.
function(_frn_public_headers result)
  cmake_parse_arguments(ARG "" "" "PUBLIC_HEADERS;PRIVATE_HEADERS" ${ARGN})
  set(_all "")
  foreach(_pattern IN LISTS ARG_PUBLIC_HEADERS ARG_PRIVATE_HEADERS)
    file(GLOB _found RELATIVE "${CMAKE_CURRENT_SOURCE_DIR}" CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/${_pattern}")
    if(NOT _found)
      message(FATAL_ERROR "${CMAKE_CURRENT_SOURCE_DIR}/CMakeLists.txt names ${_pattern} among its headers, but there is none")
    endif()
    list(APPEND _all ${_found})
  endforeach()
  list(REMOVE_DUPLICATES _all)
  if(ARG_PRIVATE_HEADERS)
    list(REMOVE_ITEM _all ${ARG_PRIVATE_HEADERS})
  endif()
  set(${result} ${_all} PARENT_SCOPE)
endfunction()

# frn_folder(NAME TYPE SOURCES ... LINKS ...): the target frn_NAME of the folder frn/NAME. LINKS is what the
# folder uses; who may include whom, tests/layout/test_includes.py checks. TORCH_HEADERS: most of its sources
# use torch::nn. HOT: all of its sources are what frn_hot says. PUBLIC_HEADERS: what users may include and `cmake --install` copies, by name or as *.h, but for
# PRIVATE_HEADERS. A public header may include public ones alone.
function(frn_folder name type)
  cmake_parse_arguments(ARG "TORCH_HEADERS;HOT" "" "SOURCES;LINKS;PUBLIC_HEADERS;PRIVATE_HEADERS" ${ARGN})
  _frn_public_headers(_headers PUBLIC_HEADERS ${ARG_PUBLIC_HEADERS} PRIVATE_HEADERS ${ARG_PRIVATE_HEADERS})
  install(FILES ${_headers} DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/frn/${name}" COMPONENT headers)
  add_library(frn_${name} ${type} ${ARG_SOURCES})
  add_library(frn::${name} ALIAS frn_${name})
  set_target_properties(frn_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(frn_${name} PRIVATE $<BUILD_INTERFACE:frn_settings> PUBLIC ${ARG_LINKS})
  target_include_directories(frn_${name} INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  if(ARG_TORCH_HEADERS)
    frn_use_torch_headers(frn_${name})
  endif()
  if(ARG_HOT)
    target_link_libraries(frn_${name} PRIVATE $<BUILD_INTERFACE:frn_hot_settings>)
  endif()
  frn_compile_together(frn_${name})
endfunction()
