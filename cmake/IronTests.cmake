# Tests: how a program or a script becomes a ctest entry whose single cases are counted.
#
# Each entry leaves its cases in ${IRON_RESULTS_DIR}/<entry>.xml or .json, where tests/tools/count.py finds them.

set(IRON_RESULTS_DIR ${CMAKE_BINARY_DIR}/results)
file(MAKE_DIRECTORY ${IRON_RESULTS_DIR})

# Folders of tests/ that are too heavy for the sanitizer legs, or load what has a sanitizer into a program without; every other folder runs there too.
set(IRON_HEAVY_FOLDERS capi cli compile_fail cpu cuda emit fuzz kernels math model mutation package perf python tier tools)

# What the sanitizer legs build and run (ctest label `unit`).
add_custom_target(iron_unit_tests)

function(_iron_label test)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(labels ${folder})
  if(NOT folder IN_LIST IRON_HEAVY_FOLDERS)
    list(APPEND labels unit)
    if(TARGET ${test})
      add_dependencies(iron_unit_tests ${test})
    endif()
  endif()
  set_property(TEST ${test} APPEND PROPERTY LABELS ${labels})
endfunction()

# iron_test(name SOURCES x.cpp DEPENDS iron_ir): one GoogleTest program, one ctest entry.
function(iron_test name)
  cmake_parse_arguments(T "" "" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE iron_options ${T_DEPENDS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE IRON_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})  # messages quote sources by their path in the project
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "GTEST_OUTPUT=xml:${IRON_RESULTS_DIR}/${name}.xml")
  _iron_label(${name})
endfunction()

# iron_check(name [RESULT xml|json] COMMAND ...): a script or tool as one ctest entry. It finds in IRON_RESULT_FILE where
# to write its counts (xunit XML, or JSON as tests/tools/count.py describes); without a file it counts as one case.
# Exit code 77 means skipped.
function(iron_check name)
  cmake_parse_arguments(C "" "RESULT" "COMMAND" ${ARGN})
  if(NOT C_RESULT)
    set(C_RESULT json)
  endif()
  add_test(NAME ${name} COMMAND ${C_COMMAND})
  set_tests_properties(${name} PROPERTIES SKIP_RETURN_CODE 77 WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT "IRON_RESULT_FILE=${IRON_RESULTS_DIR}/${name}.${C_RESULT}")
  _iron_label(${name})
endfunction()

# iron_lit_tests(folder): the `// RUN:` lines of tests/<folder>/**/*.iron as one ctest entry, once `iron` is a target.
function(iron_lit_tests folder)
  file(GLOB_RECURSE cases CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/tests/${folder}/*.iron)
  if(NOT cases OR NOT TARGET iron)
    return()
  endif()
  set(name lit_${folder})
  set(lit /usr/lib/llvm-19/build/utils/lit/lit.py CACHE FILEPATH "The lit test runner of LLVM 19")
  add_test(NAME ${name} COMMAND /usr/bin/python3 ${lit} -v --xunit-xml-output=${IRON_RESULTS_DIR}/${name}.xml
    --param iron=$<TARGET_FILE:iron> --param work=${CMAKE_BINARY_DIR}/lit/${folder} ${PROJECT_SOURCE_DIR}/tests/${folder})
  set_property(TEST ${name} APPEND PROPERTY LABELS ${folder} unit lit)
  add_dependencies(iron_unit_tests iron)
endfunction()
