# cmake -DSTEP=... -P check.cmake: one step of the package tests; CMakeLists.txt here says which and in what order.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} COMMAND_ECHO STDOUT COMMAND_ERROR_IS_FATAL ANY)
endfunction()

function(build_and_run_consumer)
  file(REMOVE_RECURSE ${WORK})
  run(${CMAKE_COMMAND} -S ${SOURCE}/tests/package/consumer -B ${WORK} -G ${GENERATOR}
    -DCMAKE_C_COMPILER=${CC} -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_BUILD_TYPE=Debug ${ARGN})
  run(${CMAKE_COMMAND} --build ${WORK})
  run(${WORK}/use_c)
  run(${WORK}/use_cpp)
endfunction()

if(STEP STREQUAL "install")
  file(REMOVE_RECURSE ${PREFIX})
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${PREFIX})

elseif(STEP STREQUAL "find_package")
  build_and_run_consumer(-DCMAKE_PREFIX_PATH=${PREFIX} -DEXPECTED_VERSION=${VERSION})

elseif(STEP STREQUAL "subdirectory")
  file(REMOVE_RECURSE ${PREFIX})
  # Without optimisation: this is about linking, and it is the only second build of the library.
  build_and_run_consumer(-DATTENIO_SOURCE=${SOURCE} -DBUILD_SHARED_LIBS=${SHARED} -DATTENIO_INSTALL=ON ${OPTIONS})
  run(${CMAKE_COMMAND} --install ${WORK} --prefix ${PREFIX})

elseif(STEP STREQUAL "pkg_config")
  file(MAKE_DIRECTORY ${WORK})
  file(GLOB_RECURSE pc ${PREFIX}/*/attenio.pc)
  cmake_path(GET pc PARENT_PATH pc_dir)
  cmake_path(GET pc_dir PARENT_PATH lib_dir)
  set(ENV{PKG_CONFIG_PATH} ${pc_dir})
  run(pkg-config --exact-version=${VERSION} attenio)
  execute_process(COMMAND pkg-config --cflags --libs attenio OUTPUT_VARIABLE flags COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  set(consumer ${SOURCE}/tests/package/consumer)
  run(${CC} -std=c99 -pedantic -Wall -Wextra -Werror ${consumer}/use_c.c -o ${WORK}/use_c ${flags} -Wl,-rpath,${lib_dir})
  run(${CXX} -std=c++20 ${consumer}/use_cpp.cc -o ${WORK}/use_cpp ${flags} -Wl,-rpath,${lib_dir})
  run(${WORK}/use_c)
  run(${WORK}/use_cpp)

elseif(STEP STREQUAL "symbols")
  # A shared attenio exports its API and nothing else (weak symbols are instances of standard templates).
  file(GLOB_RECURSE library ${PREFIX}/*/libattenio.so)
  execute_process(COMMAND ${NM} -D --defined-only ${library} OUTPUT_VARIABLE text COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "[0-9a-f]+ [TDBR] [^\n]+" symbols "${text}")
  if(NOT symbols)
    message(FATAL_ERROR "no exported symbol in ${library}")
  endif()
  list(FILTER symbols EXCLUDE REGEX " (attenio_|_Z[A-Z]*[0-9]*7attenio|_ZN?K?7attenio)")
  if(symbols)
    list(JOIN symbols "\n  " text)
    message(FATAL_ERROR "exported by accident:\n  ${text}")
  endif()

else()
  message(FATAL_ERROR "unknown STEP '${STEP}'")
endif()
