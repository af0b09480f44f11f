# `cmake --install`: headers, libraries, the program, and a package for find_package(frn). Each folder installs its own public
# headers (frn_folder).
include(CMakePackageConfigHelpers)

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/frn")
install(FILES "${PROJECT_BINARY_DIR}/generated/frn/version.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/frn"
  COMPONENT headers)
# frn_targets(SET TARGETS...): targets that frnConfig.cmake makes known together. Each component is a set of its own: a program
# with the metrics alone need not have LibTorch, one with the layer alone need not have the libraries that read images.
function(frn_targets set)
  install(TARGETS ${ARGN} EXPORT ${set} LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT ${set} NAMESPACE frn:: DESTINATION "${_package_dir}")
endfunction()
frn_targets(frn_core_targets frn_core frn_metrics frn_detection)
frn_targets(frn_targets frn_spec frn_ops frn_nn frn_models frn_onnx)
if(FRN_BUILD_TRAINING)
  frn_targets(frn_train_targets frn_data frn_dist frn_losses frn_train)
endif()
if(TARGET frn)
  install(TARGETS frn RUNTIME DESTINATION "${CMAKE_INSTALL_BINDIR}")
endif()

get_filename_component(FRN_PACKAGE_TORCH_DIR "${LibTorch_INCLUDE_DIR}" DIRECTORY)
set(FRN_PACKAGE_TORCH_VERSION "${LibTorch_VERSION}")
configure_package_config_file(cmake/frnConfig.cmake.in "${PROJECT_BINARY_DIR}/frnConfig.cmake"
  INSTALL_DESTINATION "${_package_dir}")
write_basic_package_version_file("${PROJECT_BINARY_DIR}/frnConfigVersion.cmake" COMPATIBILITY SameMinorVersion)
install(FILES "${PROJECT_BINARY_DIR}/frnConfig.cmake" "${PROJECT_BINARY_DIR}/frnConfigVersion.cmake"
  cmake/FindLibTorch.cmake DESTINATION "${_package_dir}")
