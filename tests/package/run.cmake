# Installs the build, moves the prefix (the package must not know where it was installed), builds and runs the consumer.
cmake_minimum_required(VERSION 3.25)

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE code OUTPUT_VARIABLE text ERROR_VARIABLE text)
  if(NOT code EQUAL 0)
    list(JOIN ARGN " " command)
    message(FATAL_ERROR "${command}\nfailed (${code}):\n${text}")
  endif()
  set(output "${text}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/installed)
file(RENAME ${WORK}/installed ${WORK}/moved)
run(${CMAKE_COMMAND} -S ${CONSUMER} -B ${WORK}/build -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/moved -DWANTED_VERSION=${VERSION}
  -DCMAKE_C_COMPILER=${C_COMPILER} -DCMAKE_CXX_COMPILER=${CXX_COMPILER} -DCMAKE_CXX_FLAGS=${CXX_FLAGS})
run(${CMAKE_COMMAND} --build ${WORK}/build)
run(${WORK}/build/consumer)
if(NOT output STREQUAL "f16 of 1/3: 0.333251953125\n")
  message(FATAL_ERROR "the consumer printed: ${output}")
endif()


# A C project needs the C library alone: no C++ compiler, none of the packages that the C++ libraries need.
run(${CMAKE_COMMAND} -S ${CONSUMER}/../c_consumer -B ${WORK}/build_c -G Ninja -DCMAKE_PREFIX_PATH=${WORK}/moved
  -DWANTED_VERSION=${VERSION} -DCMAKE_C_COMPILER=${C_COMPILER})
run(${CMAKE_COMMAND} --build ${WORK}/build_c)
run(${WORK}/build_c/c_consumer)
if(NOT output STREQUAL "softmax of 1 2 3: 0.0900306 0.244728 0.665241\n")
  message(FATAL_ERROR "the C consumer printed: ${output}")
endif()

# A file that names a folder of this build would break on another machine.
file(GLOB_RECURSE files ${WORK}/moved/*.cmake)
foreach(file ${files})
  file(READ ${file} text)
  string(FIND "${text}" "${BUILD}" in_build)
  string(FIND "${text}" "${WORK}/installed" in_prefix)
  if(NOT in_build EQUAL -1 OR NOT in_prefix EQUAL -1)
    message(FATAL_ERROR "${file} names a folder of this build")
  endif()
endforeach()
message(STATUS "the package works from another folder")
