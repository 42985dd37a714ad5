# Builds and runs the consumer against Tapehead in one of the ways in which a program can use it.
# WAY=install is what the first three need before: Tapehead in a fresh prefix.
#   cmake -DWAY=static|shared|pkg_config|subdirectory|install -DPREFIX=<where it is installed>
#     -DLIBDIR=<its folder of libraries> -DSOURCE=<checkout> -DBUILD=<build folder>
#     -DWORK=<scratch folder> -DCXX=<compiler> -DCXX_FLAGS=<flags> -P consume.cmake
# Compiler and flags are the build folder's: a sanitized library cannot be linked without them.

include(${SOURCE}/tests/support/run.cmake)

# What pkg-config answers about tapehead_graph, as a list.
function(pkg_config variable)
  execute_process(
    COMMAND ${CMAKE_COMMAND} -E env PKG_CONFIG_PATH=${PREFIX}/${LIBDIR}/pkgconfig
            pkg-config ${ARGN} tapehead_graph
    OUTPUT_VARIABLE answer COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(answer UNIX_COMMAND "${answer}")
  set(${variable} "${answer}" PARENT_SCOPE)
endfunction()

# The compiler's arguments for main.cpp are the consumer's own, and where the headers are.
function(expect_no_foreign_flags)
  file(READ ${WORK}/compile_commands.json commands)
  string(JSON last LENGTH "${commands}")
  math(EXPR last "${last} - 1")
  foreach(i RANGE ${last})
    string(JSON file GET "${commands}" ${i} file)
    if(file STREQUAL ${CMAKE_CURRENT_LIST_DIR}/main.cpp)
      string(JSON command GET "${commands}" ${i} command)
    endif()
  endforeach()
  separate_arguments(arguments UNIX_COMMAND "${command}")
  separate_arguments(own UNIX_COMMAND "${CXX_FLAGS}")
  list(APPEND own -Wall -Wextra -Wconversion -Wshadow -Wpedantic -Werror -std=gnu++23 -std=gnu++2b)
  list(POP_FRONT arguments)  # the compiler
  list(REMOVE_ITEM arguments ${own})
  list(FILTER arguments EXCLUDE REGEX "^(-I|-c$|-o$|CMakeFiles/|/)")
  if(arguments)
    message(FATAL_ERROR "flags that are not the consumer's own: ${arguments}")
  endif()
endfunction()

# All functions of the static library, so all operations, are there for users of the shared one.
function(expect_exported library)
  set(file ${PREFIX}/${LIBDIR}/lib${library})
  execute_process(COMMAND nm --extern-only --defined-only ${file}.a
    OUTPUT_VARIABLE static ERROR_QUIET COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND nm --dynamic --defined-only ${file}.so
    OUTPUT_VARIABLE shared COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "T _Z[^\n]+" static "${static}")
  string(REGEX MATCHALL "T _Z[^\n]+" shared "${shared}")
  list(LENGTH static count)
  list(REMOVE_ITEM static ${shared})
  if(count EQUAL 0 OR static)
    message(FATAL_ERROR "of ${count} functions, ${file}.so does not export: ${static}")
  endif()
endfunction()

# What an installed header includes of ours is installed too, and nothing internal is.
function(expect_whole_headers)
  file(GLOB_RECURSE headers RELATIVE ${PREFIX}/include ${PREFIX}/include/tapehead/*.h)
  set(internal ${headers})
  list(FILTER internal INCLUDE REGEX "/internal/")
  if(NOT headers OR internal)
    message(FATAL_ERROR "there are no headers, or internal ones: ${internal}")
  endif()
  foreach(header ${headers})
    file(STRINGS ${PREFIX}/include/${header} includes REGEX "^#include <tapehead/")
    foreach(include ${includes})
      string(REGEX REPLACE "^#include <(.*)>.*" "\\1" wanted "${include}")
      if(NOT EXISTS ${PREFIX}/include/${wanted})
        message(FATAL_ERROR "${header} includes ${wanted}, which is not installed")
      endif()
    endforeach()
  endforeach()
endfunction()

file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})

if(WAY STREQUAL "install")
  file(REMOVE_RECURSE ${PREFIX})
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX})
  expect_whole_headers()
  expect_exported(tapehead)
  expect_exported(tapehead_graph)
  return()
endif()

if(WAY STREQUAL "pkg_config")
  separate_arguments(flags UNIX_COMMAND "${CXX_FLAGS}")
  pkg_config(cflags --cflags)
  run(${CXX} -std=c++20 ${flags} ${cflags} -c ${CMAKE_CURRENT_LIST_DIR}/main.cpp -o ${WORK}/main.o)
  pkg_config(libs --libs)
  run(${CXX} ${flags} ${WORK}/main.o ${libs} -o ${WORK}/shared)
  run(${CMAKE_COMMAND} -E env LD_LIBRARY_PATH=${PREFIX}/${LIBDIR} ${WORK}/shared)
  pkg_config(libdir --variable=libdir)
  run(${CXX} ${flags} ${WORK}/main.o ${libs} -Wl,-rpath,${libdir} -o ${WORK}/with_rpath)
  run(${WORK}/with_rpath)
  pkg_config(libs --static --libs)
  list(TRANSFORM libs REPLACE "^-l(tapehead.*)" "-l:lib\\1.a")  # as tapehead.pc advises
  run(${CXX} ${flags} ${WORK}/main.o ${libs} -o ${WORK}/static)
  run(${WORK}/static)
  return()
endif()

if(WAY STREQUAL "subdirectory")
  # Also the portable path: without clones for instruction sets, and without an optimiser.
  set(way -DTAPEHEAD_SOURCE=${SOURCE} -DTAPEHEAD_CLONES=OFF)
else()
  set(way -DTAPEHEAD_KIND=${WAY} -DCMAKE_PREFIX_PATH=${PREFIX})
endif()
run(${CMAKE_COMMAND} -S ${CMAKE_CURRENT_LIST_DIR} -B ${WORK} -G Ninja ${way}
  -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_CXX_FLAGS=${CXX_FLAGS} -DCMAKE_EXPORT_COMPILE_COMMANDS=ON)
expect_no_foreign_flags()
run(${CMAKE_COMMAND} --build ${WORK})
run(${WORK}/consumer)
