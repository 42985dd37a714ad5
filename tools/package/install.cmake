# What `cmake --install` gives: headers, the static and the shared libraries side by side, the
# program, the CMake package, and a pkg-config file for each library. All of it can be moved.

set(headers ${CMAKE_INSTALL_INCLUDEDIR}/tapehead)
install(DIRECTORY core ops nn DESTINATION ${headers}
  FILES_MATCHING PATTERN "*.h" PATTERN nn/tapehead.h EXCLUDE PATTERN nn/io EXCLUDE)
install(DIRECTORY tools/graph DESTINATION ${headers}
  FILES_MATCHING PATTERN "*.h" PATTERN internal EXCLUDE PATTERN viewer EXCLUDE)
install(FILES nn/tapehead.h DESTINATION ${headers})
if(TARGET tapehead_program)
  install(TARGETS tapehead_program)
endif()

# --- the CMake package ---------------------------------------------------------------------------

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/tapehead)
install(TARGETS tapehead tapehead_graph EXPORT tapehead-static-targets)
install(TARGETS tapehead_shared tapehead_graph_shared EXPORT tapehead-shared-targets)
foreach(kind static shared)
  install(EXPORT tapehead-${kind}-targets NAMESPACE tapehead:: DESTINATION ${package})
endforeach()

if(TARGET tapehead_mpi)
  install(TARGETS tapehead_mpi EXPORT tapehead-mpi-targets)
  install(EXPORT tapehead-mpi-targets NAMESPACE tapehead:: DESTINATION ${package})
endif()

include(CMakePackageConfigHelpers)
configure_package_config_file(tools/package/config.cmake.in tapehead-config.cmake
  INSTALL_DESTINATION ${package}
  NO_SET_AND_CHECK_MACRO NO_CHECK_REQUIRED_COMPONENTS_MACRO)
write_basic_package_version_file(tapehead-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/tapehead-config.cmake
  ${PROJECT_BINARY_DIR}/tapehead-config-version.cmake DESTINATION ${package})

# --- pkg-config ----------------------------------------------------------------------------------

# One file for a library, named as it: tapehead.pc for libtapehead.
function(tapehead_install_pkg_config name description requires private)
  cmake_path(RELATIVE_PATH CMAKE_INSTALL_PREFIX
    BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE to_prefix)
  configure_file(tools/package/library.pc.in ${name}.pc @ONLY)
  install(FILES ${PROJECT_BINARY_DIR}/${name}.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
endfunction()

# Where the OpenMP runtime lies is said only where linkers do not look by themselves (clang's).
set(openmp "")
foreach(library IN LISTS OpenMP_CXX_LIB_NAMES)
  cmake_path(GET OpenMP_${library}_LIBRARY PARENT_PATH folder)
  if(NOT folder IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
    string(APPEND openmp " -L${folder}")
  endif()
  string(APPEND openmp " -l${library}")
endforeach()
tapehead_install_pkg_config(tapehead ${PROJECT_DESCRIPTION} "" "-lopenblas${openmp}")
tapehead_install_pkg_config(tapehead_graph "Reads, writes and reports on Tapehead's graphs"
  tapehead "")
