# Settings that every target of the project shares, and the function that makes one target per folder.

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
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

find_program(FRN_CCACHE ccache)
if(FRN_CCACHE)
  # Precompiled headers carry time stamps; without this ccache never hits on a file that uses one.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      "${CMAKE_COMMAND}" -E env
      CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime "${FRN_CCACHE}")
endif()

add_library(frn_settings INTERFACE)
target_compile_options(frn_settings INTERFACE -Wall -Wextra -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # gcc 12 warns wrongly inside its own AVX-512 intrinsics (uninitialised) and its own std::string (restrict).
  target_compile_options(frn_settings INTERFACE -Wno-maybe-uninitialized -Wno-restrict)
endif()
# One rounding rule everywhere: no contraction that the source does not spell as a fused multiply-add.
target_compile_options(frn_settings INTERFACE -ffp-contract=off)
target_compile_definitions(frn_settings INTERFACE FMT_HEADER_ONLY)
target_include_directories(frn_settings INTERFACE "${PROJECT_SOURCE_DIR}")
if(FRN_SANITIZE)
  # Less optimisation and debug information, to compile faster; traces still name lines. The tests run a third slower.
  target_compile_options(frn_settings INTERFACE -fsanitize=${FRN_SANITIZE} -fno-omit-frame-pointer -O1 -g1)
  target_link_options(frn_settings INTERFACE -fsanitize=${FRN_SANITIZE})
  if(FRN_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # LibTorch's headers have a fence that gcc's thread sanitizer does not see: it may report too much there, not too little.
    target_compile_options(frn_settings INTERFACE -Wno-tsan)
  endif()
endif()

# frn_folder(NAME TYPE SOURCES ... LINKS ...): the target frn_NAME of the folder frn/NAME. LINKS is the whole list of
# what the folder may include, so an include that breaks the layering fails to build.
function(frn_folder name type)
  cmake_parse_arguments(ARG "" "" "SOURCES;LINKS;PRECOMPILE" ${ARGN})
  add_library(frn_${name} ${type} ${ARG_SOURCES})
  add_library(frn::${name} ALIAS frn_${name})
  set_target_properties(frn_${name} PROPERTIES EXPORT_NAME ${name})
  target_link_libraries(frn_${name} PRIVATE $<BUILD_INTERFACE:frn_settings> PUBLIC ${ARG_LINKS})
  target_include_directories(frn_${name} INTERFACE
    "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}>" "$<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>")
  if(ARG_PRECOMPILE)
    target_precompile_headers(frn_${name} PRIVATE ${ARG_PRECOMPILE})
  endif()
endfunction()
