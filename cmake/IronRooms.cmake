# Libraries: one static library for each folder of src/, all held to the same warnings.

# Warnings and floating-point rules bind Iron's own code, never the code of those who use the package.
add_library(iron_options INTERFACE)
target_compile_features(iron_options INTERFACE cxx_std_20)
# g++ -Wshadow also refuses an enumerator named like a type (DType::f32); the local form finds the real mistakes.
set(shadow $<IF:$<CXX_COMPILER_ID:GNU>,-Wshadow=compatible-local,-Wshadow>)
foreach(option -Wall -Wextra -Wpedantic ${shadow} -Wconversion -Wno-sign-conversion -Werror -ffp-contract=off -fno-math-errno)
  target_compile_options(iron_options INTERFACE $<BUILD_INTERFACE:${option}>)
endforeach()
target_include_directories(iron_options INTERFACE $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
  $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/src> $<INSTALL_INTERFACE:include>)

# iron_room(core SOURCES a.cpp b.cpp DEPENDS ir): a static library `iron_core` for one folder of src/.
function(iron_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;DEPENDS" ${ARGN})
  add_library(iron_${name} STATIC ${ROOM_SOURCES})
  target_link_libraries(iron_${name} PUBLIC iron_options ${ROOM_DEPENDS})
  set_property(GLOBAL APPEND PROPERTY IRON_ROOMS iron_${name})
endfunction()
