# What `pip install .` puts into the Python package (pyproject.toml): the operators, the program where it is built, and the
# version of torch that both need. Everything finds torch beside the package, wherever that is.
set_target_properties(frn_ops PROPERTIES INSTALL_RPATH "$ORIGIN/../../torch/lib" INSTALL_RPATH_USE_LINK_PATH OFF)
install(TARGETS frn_ops LIBRARY DESTINATION frn/lib COMPONENT python)
install(FILES "${FRN_TORCH_VERSION_FILE}" DESTINATION frn/lib COMPONENT python)
add_custom_target(frn_python DEPENDS frn_ops)
if(TARGET frn)
  set_target_properties(frn PROPERTIES
    INSTALL_RPATH "$ORIGIN/../lib;$ORIGIN/../../torch/lib" INSTALL_RPATH_USE_LINK_PATH OFF)
  install(TARGETS frn RUNTIME DESTINATION frn/bin COMPONENT python)
  add_dependencies(frn_python frn)
endif()
