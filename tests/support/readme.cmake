# Holds README.md and the pages beside the code (core/tape.md and so on) to their word. Every block of
# C++ begins with the name of its file ("// example.cpp"), into which it is written; together, with
# README's "# CMakeLists.txt", they are a project that uses an installed Tapehead. It is built, and its
# programs run. Where "It prints:" and a block of text follow, that is what the program must print.
# With DIFF=ON, the block of language diff is applied to a copy of the sources instead, exactly where
# it says, and the tests of operations must pass there.
#   cmake -DSOURCE=<checkout> -DBUILD=<build folder> -DWORK=<scratch folder> -DCXX=<compiler>
#     -DCXX_FLAGS=<flags> [-DDIFF=ON] -P readme.cmake
# Compiler and flags are the build folder's: a sanitized library cannot be linked without them.

include(${SOURCE}/tests/support/run.cmake)

# A block of a page, by how it begins: its language, and perhaps its first line.
function(read_block page begins variable)
  file(READ ${SOURCE}/${page} text)
  if(NOT text MATCHES "```${begins}\n([^`]*)```")
    message(FATAL_ERROR "${page}: no block that begins with ${begins}")
  endif()
  set(${variable} "${CMAKE_MATCH_1}" PARENT_SCOPE)
endfunction()

# Writes the programs of a page to the project, and what they must print beside them; appends their
# names to the list `variable`.
function(write_programs page variable)
  set(names ${${variable}})
  file(READ ${SOURCE}/${page} text)
  while(text MATCHES "```cpp\n// ([a-z_]+)\\.cpp\n[^`]*```(\n\nIt prints:\n\n```text\n([^`]*)```)?")
    set(match "${CMAKE_MATCH_0}")
    set(name "${CMAKE_MATCH_1}")
    set(printed "${CMAKE_MATCH_3}")
    string(REPLACE "${match}" "" text "${text}")
    string(REGEX REPLACE "^```cpp\n([^`]*)```.*" "\\1" program "${match}")
    file(WRITE ${WORK}/user/${name}.cpp "${program}")
    if(printed)
      file(WRITE ${WORK}/user/${name}.txt "${printed}")
    endif()
    list(APPEND names ${name})
  endwhile()
  if(text MATCHES "```cpp")
    message(FATAL_ERROR "${page}: a block of C++ does not begin with the name of its file")
  endif()
  set(${variable} "${names}" PARENT_SCOPE)
endfunction()

function(run_program name)
  execute_process(COMMAND ${WORK}/user/build/${name} WORKING_DIRECTORY ${WORK}/user/build
    OUTPUT_VARIABLE printed RESULT_VARIABLE result)
  message("${printed}")
  if(NOT result EQUAL 0)
    message(FATAL_ERROR "${name}.cpp: ends with ${result}")
  endif()
  if(EXISTS ${WORK}/user/${name}.txt)
    file(READ ${WORK}/user/${name}.txt wanted)
    if(NOT printed STREQUAL wanted)
      message(FATAL_ERROR "${name}.cpp: does not print what its page says:\n${wanted}")
    endif()
  endif()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

if(DIFF)
  read_block(ops/adding_an_operation.md diff patch)
  file(WRITE ${WORK}/change.diff "${patch}")
  foreach(entry CMakeLists.txt CMakePresets.json core ops nn tests tools)
    file(COPY ${SOURCE}/${entry} DESTINATION ${WORK}/tree)
  endforeach()
  # Not as a part of the repository that the scratch folder may lie in.
  execute_process(OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE result
    COMMAND ${CMAKE_COMMAND} -E env GIT_CEILING_DIRECTORIES=${WORK} LC_ALL=C
            git -C ${WORK}/tree apply --verbose ${WORK}/change.diff)
  if(NOT result EQUAL 0 OR said MATCHES "offset")
    message(FATAL_ERROR "the diff of ops/adding_an_operation.md does not apply where it says:\n${said}")
  endif()
  run(${CMAKE_COMMAND} -S ${WORK}/tree -B ${WORK}/build -G Ninja -DTAPEHEAD_BUILD_TOOLS=OFF
    -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${CXX_FLAGS})
  run(${CMAKE_COMMAND} --build ${WORK}/build --target tapehead_tests)
  run(${WORK}/build/tapehead_tests --source-file=*operations_*_test.cpp)
  return()
endif()

write_programs(README.md programs)
read_block(README.md "cmake\n# CMakeLists.txt" project)
file(GLOB pages RELATIVE ${SOURCE} ${SOURCE}/core/*.md ${SOURCE}/nn/*.md ${SOURCE}/ops/*.md
  ${SOURCE}/tools/graph/*.md)
foreach(page ${pages})
  set(of_page)
  write_programs(${page} of_page)
  foreach(name ${of_page})
    string(APPEND project "add_executable(${name} ${name}.cpp)\n"
      "target_link_libraries(${name} PRIVATE tapehead::graph)\n")
  endforeach()
  list(APPEND programs ${of_page})
endforeach()
file(WRITE ${WORK}/user/CMakeLists.txt "${project}")

run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/prefix)
run(${CMAKE_COMMAND} -S ${WORK}/user -B ${WORK}/user/build -G Ninja
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${CXX_FLAGS} -DCMAKE_BUILD_TYPE=Debug
  -DCMAKE_PREFIX_PATH=${WORK}/prefix)
run(${CMAKE_COMMAND} --build ${WORK}/user/build)
foreach(name ${programs})
  run_program(${name})
endforeach()
