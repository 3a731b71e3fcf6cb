# Sanitizers for the rooms of src/ and their tests. What only records kernels or reads a command line is built without
# them, word for word as in the plain preset, so that ccache has it already: it is two thirds of a build.
set(IRON_SANITIZE_OPTIONS)
if(IRON_SANITIZE)
  set(IRON_SANITIZE_OPTIONS -fsanitize=${IRON_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
  add_compile_options(${IRON_SANITIZE_OPTIONS})
  add_link_options(-fsanitize=${IRON_SANITIZE})
endif()

# iron_without_sanitizers(): for the targets of this folder that are added from here on.
macro(iron_without_sanitizers)
  get_directory_property(options COMPILE_OPTIONS)
  if(IRON_SANITIZE_OPTIONS)
    list(REMOVE_ITEM options ${IRON_SANITIZE_OPTIONS})
  endif()
  set_directory_properties(PROPERTIES COMPILE_OPTIONS "${options}")
endmacro()
