# How a test, benchmark or example becomes a target. Sources are found by pattern: a new file needs no CMake edit.

# attenio_add_program(NAME sources... [LINK libraries...])
function(attenio_add_program name)
  cmake_parse_arguments(arg "" "" "LINK" ${ARGN})
  add_executable(${name} ${arg_UNPARSED_ARGUMENTS})
  attenio_set_options(${name})
  attenio_set_source_options(${arg_UNPARSED_ARGUMENTS})
  target_link_libraries(${name} PRIVATE ${arg_LINK})
endfunction()

# One binary of Google tests; every case becomes a ctest named LAYER.Suite.Case. A skipped case counts as skipped.
function(attenio_add_gtest name layer)
  cmake_parse_arguments(arg "" "TIMEOUT;LABEL" "SOURCES;LINK" ${ARGN})
  attenio_add_program(${name} ${arg_SOURCES} LINK attenio_test_support GTest::gtest_main ${arg_LINK})
  gtest_discover_tests(${name}
    TEST_PREFIX ${layer}.
    DISCOVERY_MODE PRE_TEST  # listing at build time would run instrumented binaries during the build
    PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT})
endfunction()

# tests/LAYER/*_test.cc -> LAYER_tests, and tests/LAYER/*_long_test.cc -> LAYER_long_tests with the label "long" alone.
function(attenio_add_layer_tests layer)
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${layer}/*_test.cc)
  set(long_sources ${sources})
  list(FILTER long_sources INCLUDE REGEX "_long_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_long_test\\.cc$")
  set(libraries "")
  if(layer STREQUAL "cli")
    set(libraries attenio_commands)
  endif()
  set(timeout 300)
  if(ATTENIO_SANITIZE)
    set(timeout 1800)  # instrumented code is 5 to 20 times slower
  endif()
  if(sources)
    attenio_add_gtest(${layer}_tests ${layer} SOURCES ${sources} LABEL ${layer} TIMEOUT ${timeout} LINK ${libraries})
  endif()
  if(long_sources)
    attenio_add_gtest(${layer}_long_tests ${layer} SOURCES ${long_sources} LABEL long TIMEOUT 3600 LINK ${libraries})
  endif()
endfunction()
