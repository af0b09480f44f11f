# `cmake --install`: headers, libraries, the program, and a package for find_package(frn). Each folder installs its own public
# headers (frn_folder).
include(CMakePackageConfigHelpers)

set(_package_dir "${CMAKE_INSTALL_LIBDIR}/cmake/frn")
install(FILES "${PROJECT_BINARY_DIR}/generated/frn/version.h" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/frn"
  COMPONENT headers)
install(TARGETS frn_core frn_spec frn_ops frn_nn frn_detection frn_models EXPORT frn_targets
  LIBRARY DESTINATION "${CMAKE_INSTALL_LIBDIR}" ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
install(EXPORT frn_targets NAMESPACE frn:: DESTINATION "${_package_dir}")
# A component of its own: a program with the layer alone need not have the libraries that read images.
if(FRN_BUILD_TRAINING)
  install(TARGETS frn_data frn_dist frn_losses frn_metrics frn_train EXPORT frn_train_targets
    ARCHIVE DESTINATION "${CMAKE_INSTALL_LIBDIR}")
  install(EXPORT frn_train_targets NAMESPACE frn:: DESTINATION "${_package_dir}")
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
