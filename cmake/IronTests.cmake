# Tests: how a program or a script becomes a ctest entry whose single cases are counted.
#
# Each entry leaves its cases in ${IRON_RESULTS_DIR}/<entry>.xml or .json, where tests/tools/count.py finds them.

set(IRON_RESULTS_DIR ${CMAKE_BINARY_DIR}/results)
file(MAKE_DIRECTORY ${IRON_RESULTS_DIR})

# Folders of tests/ that are too heavy for the sanitizer legs, or load what has a sanitizer into a program without; every other folder runs there too.
set(IRON_HEAVY_FOLDERS capi cli compile_fail cpu cuda emit fuzz kernels math model mutation package perf python tier tools)

# What the sanitizer legs build and run (ctest label `unit`).
add_custom_target(iron_unit_tests)

function(_iron_label test)  # _iron_label(ENTRY [TARGET])
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  set(labels ${folder})
  if(NOT folder IN_LIST IRON_HEAVY_FOLDERS)
    list(APPEND labels unit)
    foreach(target ${test} ${ARGN})
      if(TARGET ${target})
        add_dependencies(iron_unit_tests ${target})
      endif()
    endforeach()
  endif()
  set_property(TEST ${test} APPEND PROPERTY LABELS ${labels})
endfunction()

# iron_test(name SOURCES x.cpp DEPENDS iron_ir [SHARDS n]): one GoogleTest program, one ctest entry; or n of them, which
# share its cases, so that a long program uses every core and resumes where it was cut off.
function(iron_test name)
  cmake_parse_arguments(T "" "SHARDS" "SOURCES;DEPENDS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE iron_options ${T_DEPENDS} GTest::gtest GTest::gtest_main)
  target_compile_definitions(${name} PRIVATE IRON_SOURCE_DIR="${PROJECT_SOURCE_DIR}")
  if(NOT T_SHARDS)
    set(T_SHARDS 1)
  endif()
  foreach(shard RANGE 1 ${T_SHARDS})
    set(entry ${name})
    if(T_SHARDS GREATER 1)
      set(entry ${name}_${shard}_of_${T_SHARDS})
    endif()
    math(EXPR index "${shard} - 1")
    add_test(NAME ${entry} COMMAND ${name})
    set_tests_properties(${entry} PROPERTIES WORKING_DIRECTORY ${PROJECT_SOURCE_DIR})  # messages quote sources by their path in the project
    set_property(TEST ${entry} APPEND PROPERTY ENVIRONMENT "GTEST_OUTPUT=xml:${IRON_RESULTS_DIR}/${entry}.xml")
    if(T_SHARDS GREATER 1)
      set_property(TEST ${entry} APPEND PROPERTY ENVIRONMENT GTEST_TOTAL_SHARDS=${T_SHARDS} GTEST_SHARD_INDEX=${index})
    endif()
    _iron_label(${entry} ${name})
  endforeach()
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
