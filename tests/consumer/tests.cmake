# A program of somebody else is built against an installed Tapehead with the static and the shared
# libraries of its CMake package and with pkg-config, and with Tapehead's sources as a subdirectory.
# The last compiles the whole library again, and so is for the long suite.

foreach(way install static shared pkg_config subdirectory)
  add_test(NAME consumer_${way}
    COMMAND ${CMAKE_COMMAND} -DWAY=${way} -DPREFIX=${PROJECT_BINARY_DIR}/consumer/prefix
            -DLIBDIR=${CMAKE_INSTALL_LIBDIR} -DSOURCE=${PROJECT_SOURCE_DIR}
            -DBUILD=${PROJECT_BINARY_DIR} -DWORK=${PROJECT_BINARY_DIR}/consumer/${way}
            -DCXX=${CMAKE_CXX_COMPILER} "-DCXX_FLAGS=${CMAKE_CXX_FLAGS}"
            -P ${PROJECT_SOURCE_DIR}/tests/consumer/consume.cmake)
endforeach()
set_tests_properties(consumer_install PROPERTIES FIXTURES_SETUP installed)
set_tests_properties(consumer_static consumer_shared consumer_pkg_config PROPERTIES
  FIXTURES_REQUIRED installed)
set_tests_properties(consumer_subdirectory PROPERTIES LABELS long)
