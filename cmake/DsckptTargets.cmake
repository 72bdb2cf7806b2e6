# What every target of this project has in common.

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM AND PROJECT_IS_TOP_LEVEL)
  # Paths below the source tree do not count: another clone of the same files finds what this one compiled.
  # The sloppiness is what ccache asks for where headers are precompiled.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true
      CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE_PROGRAM})
  set(CMAKE_C_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${CMAKE_CXX_COMPILER_LAUNCHER})
endif()

# Names are hidden unless a public header exports them (dsckpt/export.h).
set(CMAKE_CXX_VISIBILITY_PRESET hidden)
set(CMAKE_CUDA_VISIBILITY_PRESET hidden)
set(CMAKE_VISIBILITY_INLINES_HIDDEN ON)

add_library(dsckpt_options INTERFACE)
target_compile_features(dsckpt_options INTERFACE cxx_std_20)
target_include_directories(dsckpt_options INTERFACE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/include)
if(DSCKPT_DEVELOPER)
  target_compile_options(dsckpt_options INTERFACE -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion)
  if(NOT DSCKPT_SANITIZE)
    # Under the sanitizers g++ warns of what is not there (its manual says so).
    target_compile_options(dsckpt_options INTERFACE -Werror)
  endif()
  if(CMAKE_CXX_COMPILER_ID STREQUAL GNU AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
    # GCC bug 105651: false -Wrestrict on std::string concatenation.
    target_compile_options(dsckpt_options INTERFACE $<$<COMPILE_LANGUAGE:CXX>:-Wno-restrict>)
  endif()
endif()
if(DSCKPT_SANITIZE)
  target_compile_options(dsckpt_options INTERFACE -fsanitize=${DSCKPT_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(dsckpt_options INTERFACE -fsanitize=${DSCKPT_SANITIZE})
  if(DSCKPT_SANITIZE MATCHES undefined)
    # With its checks in, optimizing takes three times as long as compiling. For tests and tools.
    set(DSCKPT_RUN_ONCE -O0)
    target_compile_options(dsckpt_options INTERFACE -fno-sanitize-recover=undefined)
  endif()
endif()

# One layer of the library: dsckpt_layer(format third_party...) compiles format/**/*.cc into dsckpt_format. With
# CMAKE_UNITY_BUILD each folder is compiled as one file, which takes less than half the time; so names in unnamed
# namespaces are unique in a folder.
function(dsckpt_layer name)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/${name}/*.cc)
  add_library(dsckpt_${name} OBJECT ${sources})
  set_target_properties(dsckpt_${name} PROPERTIES POSITION_INDEPENDENT_CODE ON UNITY_BUILD_MODE GROUP)
  foreach(source ${sources})
    get_filename_component(folder ${source} DIRECTORY)
    file(RELATIVE_PATH folder ${PROJECT_SOURCE_DIR} ${folder})
    string(MAKE_C_IDENTIFIER ${folder} group)
    set_source_files_properties(${source} TARGET_DIRECTORY dsckpt_${name} PROPERTIES UNITY_GROUP ${group})
  endforeach()
  if(CMAKE_UNITY_BUILD)
    # For g++ a file that another includes is a header.
    target_compile_options(dsckpt_${name} PRIVATE $<$<CXX_COMPILER_ID:GNU>:-Wno-subobject-linkage>)
  endif()
  target_link_libraries(dsckpt_${name} PRIVATE dsckpt_options ${ARGN})
endfunction()

# For tests that run ranks of MPI: as root in a container, and more ranks than cores. Other implementations than Open MPI
# allow both anyway and do not know these.
set(DSCKPT_MPI_TEST_ENVIRONMENT OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe)
