# The programs of tests, and what ctest runs.

find_package(doctest REQUIRED)

# A program of tests, or objects for some. They are most of the code and their time is spent in the
# library: they are built quickly, not to be quick.
function(tapehead_test_code target)
  target_link_libraries(${target} PRIVATE tapehead_warnings ${ARGN})
  target_compile_options(${target} PRIVATE -O0)
endfunction()

# The same, with the precompiled <tapehead/tapehead.h> of the program.
function(tapehead_small_test_code target)
  tapehead_test_code(${target} ${ARGN})
  target_precompile_headers(${target} REUSE_FROM tapehead_program_parts)
endfunction()

# Training steps and pages that the browser's tests need too.
add_library(tapehead_samples OBJECT tests/support/viewer_samples.cpp
  tests/support/training_steps.cpp)
tapehead_small_test_code(tapehead_samples tapehead tapehead_graph nlohmann_json::nlohmann_json)

file(GLOB sources CONFIGURE_DEPENDS tests/*.cpp tests/support/*.cpp)
list(FILTER sources EXCLUDE REGEX "support/(viewer_samples|training_steps)")
add_executable(tapehead_tests ${sources} $<TARGET_OBJECTS:tapehead_samples>)
tapehead_test_code(tapehead_tests
  tapehead tapehead_graph tapehead_program_parts doctest::doctest nlohmann_json::nlohmann_json)
target_compile_definitions(tapehead_tests PRIVATE
  TAPEHEAD_SOURCE_DIR="${PROJECT_SOURCE_DIR}" TAPEHEAD_PROGRAM="$<TARGET_FILE:tapehead_program>"
  DOCTEST_CONFIG_SUPER_FAST_ASSERTS)
# main.cpp goes without the precompiled header, for it is where doctest's own code is compiled.
target_precompile_headers(tapehead_tests PRIVATE <doctest/doctest.h> <tapehead/tapehead.h>)
set_source_files_properties(tests/support/main.cpp PROPERTIES SKIP_PRECOMPILE_HEADERS ON)
tapehead_compile_together(tapehead_tests nlohmann)
add_dependencies(tapehead_tests tapehead_program)

# An operation without a row in the table of operation cases fails the build of the tests.
file(GLOB tables CONFIGURE_DEPENDS ops/*.h tests/operation_cases_*.cpp)
set(check ${PROJECT_SOURCE_DIR}/tests/support/operations_have_rows.cmake)
set(stamp ${PROJECT_BINARY_DIR}/operations_have_rows.stamp)
add_custom_command(OUTPUT ${stamp} DEPENDS ${tables} ${check}
  COMMAND ${CMAKE_COMMAND} -DSOURCE_DIR=${PROJECT_SOURCE_DIR} -DSTAMP=${stamp} -P ${check})
target_sources(tapehead_tests PRIVATE ${stamp})

# One ctest test for each tests/*_test.cpp, known without running the binary.
file(GLOB sources CONFIGURE_DEPENDS tests/*_test.cpp)
foreach(source ${sources})
  cmake_path(GET source FILENAME file)
  cmake_path(GET source STEM name)
  add_test(NAME ${name} COMMAND tapehead_tests --source-file=*/tests/${file} --no-skip=false)
  # doctest calls a run of no test case a success; we do not.
  set_tests_properties(${name} PROPERTIES FAIL_REGULAR_EXPRESSION "test cases: +0 ")
  if(name MATCHES "_long_test$")
    set_tests_properties(${name} PROPERTIES LABELS long)
  endif()
endforeach()

# Several processes at once, which ctest counts.
set_property(SOURCE tests/ranks_test.cpp tests/ranks_long_test.cpp tests/support/killed_ranks.cpp
  APPEND PROPERTY COMPILE_DEFINITIONS
  TAPEHEAD_MPIRUN="$<$<TARGET_EXISTS:tapehead_mpi>:${MPIEXEC_EXECUTABLE}>")
foreach(name ranks_test ranks_long_test)
  set_tests_properties(${name} PROPERTIES
    PROCESSORS 2 TIMEOUT 900 SKIP_REGULAR_EXPRESSION "SKIPPED: built without MPI")
endforeach()
if(TARGET tapehead_mpi)
  add_executable(tapehead_mpi_tests tests/mpi/group_test.cpp)
  tapehead_small_test_code(tapehead_mpi_tests tapehead_mpi doctest::doctest)
  add_test(NAME mpi_group COMMAND ${MPIEXEC_EXECUTABLE} --oversubscribe --bind-to none -n 3
    $<TARGET_FILE:tapehead_mpi_tests>)
  set_tests_properties(mpi_group PROPERTIES PROCESSORS 2 TIMEOUT 300
    ENVIRONMENT "OMPI_ALLOW_RUN_AS_ROOT=1;OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1")
else()
  add_test(NAME mpi_group COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: built without MPI")
  set_tests_properties(mpi_group PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED")
endif()

# A program of its own, whose operator new fails on demand.
add_executable(tapehead_bad_alloc_tests tests/bad_alloc/step_test.cpp)
tapehead_small_test_code(tapehead_bad_alloc_tests tapehead doctest::doctest)
add_test(NAME bad_alloc COMMAND tapehead_bad_alloc_tests)

# A test case in any other file would never run: this test lists such cases and fails.
add_test(NAME every_case_is_in_a_test_file
  COMMAND tapehead_tests --list-test-cases --source-file-exclude=*/tests/*_test.cpp)
set_tests_properties(every_case_is_in_a_test_file PROPERTIES
  PASS_REGULAR_EXPRESSION "passing the current filters: 0")

# The lecture's figures, as the command computes them.
add_test(NAME lecture COMMAND tapehead_program lecture)
set_tests_properties(lecture PROPERTIES PASS_REGULAR_EXPRESSION ", 0 failed")

# The worked examples: they train, and say by their exit code whether they learned. They are built
# as by a user, but for the time that it takes.
file(GLOB sources CONFIGURE_DEPENDS tools/examples/*.cpp)
foreach(source ${sources})
  cmake_path(GET source STEM name)
  add_executable(example_${name} ${source})
  tapehead_test_code(example_${name} tapehead)
  set_target_properties(example_${name} PROPERTIES
    OUTPUT_NAME ${name} RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/examples)
  add_test(NAME example_${name} COMMAND example_${name})
endforeach()

# The tape viewer in a real browser. Selenium is a package of Debian's python3, which another python3
# on the PATH does not have.
add_executable(tapehead_viewer_samples tests/viewer/write_samples.cpp
  $<TARGET_OBJECTS:tapehead_samples>)
tapehead_small_test_code(tapehead_viewer_samples
  tapehead tapehead_graph nlohmann_json::nlohmann_json)
add_test(NAME viewer_browser
  COMMAND /usr/bin/python3 ${PROJECT_SOURCE_DIR}/tests/viewer/browser_test.py
          --program $<TARGET_FILE:tapehead_program>
          --samples $<TARGET_FILE:tapehead_viewer_samples>)
set_tests_properties(viewer_browser PROPERTIES SKIP_RETURN_CODE 77)

include(tests/consumer/tests.cmake)

# The API reference is made without a warning: everything public has documentation.
find_program(TAPEHEAD_DOXYGEN doxygen)
if(TAPEHEAD_DOXYGEN)
  add_test(NAME reference
    COMMAND ${PROJECT_SOURCE_DIR}/tools/docs ${PROJECT_BINARY_DIR}/reference)
endif()

# The programs in README.md and the pages are built against an installed Tapehead and run; the diff
# that adds an operation is applied and tested.
set(readme ${CMAKE_COMMAND} -DSOURCE=${PROJECT_SOURCE_DIR} -DBUILD=${PROJECT_BINARY_DIR}
  -DCXX=${CMAKE_CXX_COMPILER} "-DCXX_FLAGS=${CMAKE_CXX_FLAGS}")
add_test(NAME readme_examples
  COMMAND ${readme} -DWORK=${PROJECT_BINARY_DIR}/readme
          -P ${PROJECT_SOURCE_DIR}/tests/support/readme.cmake)
add_test(NAME readme_diff
  COMMAND ${readme} -DWORK=${PROJECT_BINARY_DIR}/readme_diff -DDIFF=ON
          -P ${PROJECT_SOURCE_DIR}/tests/support/readme.cmake)
set_tests_properties(readme_diff PROPERTIES LABELS long)

# ctest runs tests side by side: OpenMP threads that spin while they wait would slow each other down
# a hundredfold.
get_property(tests DIRECTORY PROPERTY TESTS)
set_property(TEST ${tests} APPEND PROPERTY ENVIRONMENT OMP_WAIT_POLICY=passive)
