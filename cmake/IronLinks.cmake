# Convenience targets: stable paths for the programs, and what the g++ leg needs.

# build/iron and build/generate point into the preset that was built last.
if(IRON_LINK_BINARIES)
  add_custom_target(iron_links ALL)
  foreach(program iron generate)
    if(TARGET ${program})
      add_custom_command(TARGET iron_links POST_BUILD VERBATIM
        COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:${program}> ${PROJECT_SOURCE_DIR}/build/${program})
      add_dependencies(iron_links ${program})
    endif()
  endforeach()
endif()

# The g++ leg of ./test builds this: the tool, which records every kernel; before it exists, the libraries.
add_custom_target(iron_identity)
if(TARGET iron)
  add_dependencies(iron_identity iron)
else()
  get_property(rooms GLOBAL PROPERTY IRON_ROOMS)
  add_dependencies(iron_identity ${rooms})
endif()
