# Libraries that bring no CMake files of their own, as imported targets. The build includes this file, and so does the
# installed package: dependencies are found on the machine that links, and no path of the building machine is exported.

# dsckpt_find_library(name header library package)
function(dsckpt_find_library name header library package)
  if(TARGET dsckpt::${name})
    return()
  endif()
  find_path(DSCKPT_${name}_INCLUDE ${header})
  find_library(DSCKPT_${name}_LIBRARY ${library})
  mark_as_advanced(DSCKPT_${name}_INCLUDE DSCKPT_${name}_LIBRARY)
  if(NOT DSCKPT_${name}_INCLUDE OR NOT DSCKPT_${name}_LIBRARY)
    message(FATAL_ERROR "dsckpt: ${header} or lib${library} not found: install ${package} (Debian, Ubuntu)")
  endif()
  add_library(dsckpt::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(dsckpt::${name} PROPERTIES IMPORTED_LOCATION "${DSCKPT_${name}_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${DSCKPT_${name}_INCLUDE}")
endfunction()

# dsckpt_find_libraries(WITH_URING): all that the library links.
function(dsckpt_find_libraries with_uring)
  dsckpt_find_library(xxhash xxhash.h xxhash libxxhash-dev)
  dsckpt_find_library(zstd zstd.h zstd libzstd-dev)
  if(with_uring)
    dsckpt_find_library(uring liburing.h uring liburing-dev)
  endif()
endfunction()
