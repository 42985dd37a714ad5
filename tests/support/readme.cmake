# Holds README.md to its word. Every fenced block whose first line names a file ("// example.cpp",
# "# CMakeLists.txt") is written to that file; together they are a project that uses an installed
# Tapehead, which is built, and its programs run. With DIFF=ON, the block of language diff is applied
# to a copy of the sources instead, and the tests of operations must pass there.
#   cmake -DSOURCE=<checkout> -DBUILD=<build folder> -DWORK=<scratch folder> -DCXX=<compiler>
#     -DCXX_FLAGS=<flags> [-DDIFF=ON] -P readme.cmake
# Compiler and flags are the build folder's: a sanitized library cannot be linked without them.

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result)
  if(NOT result EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "README.md: failed: ${command}")
  endif()
endfunction()

# A fenced block of README.md, by a regular expression for how it begins.
function(read_block begins variable)
  file(READ ${SOURCE}/README.md text)
  string(REPLACE ";" "<semicolon>" text "${text}")
  string(REGEX MATCH "```${begins}[^`]*```" block "${text}")
  if(block STREQUAL "")
    message(FATAL_ERROR "README.md: no block that begins with ${begins}")
  endif()
  string(REGEX REPLACE "^```[a-z]+\n" "" block "${block}")
  string(REGEX REPLACE "```$" "" block "${block}")
  string(REPLACE "<semicolon>" ";" block "${block}")
  set(${variable} "${block}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

if(DIFF)
  read_block("diff\n" patch)
  file(WRITE ${WORK}/change.diff "${patch}")
  foreach(entry CMakeLists.txt CMakePresets.json core ops nn tests tools)
    file(COPY ${SOURCE}/${entry} DESTINATION ${WORK}/tree)
  endforeach()
  # Not as a part of the repository that the scratch folder may lie in.
  run(${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=${WORK} git -C ${WORK}/tree apply ${WORK}/change.diff)
  run(${CMAKE_COMMAND} -S ${WORK}/tree -B ${WORK}/build -G Ninja -DTAPEHEAD_BUILD_TOOLS=OFF
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${CXX_FLAGS})
  run(${CMAKE_COMMAND} --build ${WORK}/build --target tapehead_tests)
  run(${WORK}/build/tapehead_tests --source-file=*operations_*_test.cpp)
  return()
endif()

foreach(file example.cpp cube.cpp budget.cpp)
  read_block("cpp\n// ${file}\n" content)
  file(WRITE ${WORK}/user/${file} "${content}")
endforeach()
read_block("cmake\n# CMakeLists.txt\n" content)
file(WRITE ${WORK}/user/CMakeLists.txt "${content}")
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${WORK}/user -B ${WORK}/user/build -G Ninja
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${CXX_FLAGS} -DCMAKE_BUILD_TYPE=Debug
  -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/user/build)
run(${WORK}/user/build/example)
run(${WORK}/user/build/cube)
run(${WORK}/user/build/budget)
