# Third-party libraries, from the system's packages. Each becomes one imported target dep::NAME.

find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)

if(DSCKPT_STATIC_DEPENDENCIES)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()

# dsckpt_find_library(NAME header library package): header-and-library packages that bring no CMake files.
function(dsckpt_find_library name header library package)
  find_path(${name}_INCLUDE ${header})
  find_library(${name}_LIBRARY ${library})
  if(NOT ${name}_INCLUDE OR NOT ${name}_LIBRARY)
    message(FATAL_ERROR "${header} or ${library} not found: install ${package} (Debian, Ubuntu)")
  endif()
  add_library(dep::${name} UNKNOWN IMPORTED GLOBAL)
  set_target_properties(dep::${name} PROPERTIES IMPORTED_LOCATION ${${name}_LIBRARY}
                        INTERFACE_INCLUDE_DIRECTORIES ${${name}_INCLUDE})
endfunction()

dsckpt_find_library(xxhash xxhash.h xxhash libxxhash-dev)
dsckpt_find_library(zstd zstd.h zstd libzstd-dev)
if(DSCKPT_WITH_URING)
  dsckpt_find_library(uring liburing.h uring liburing-dev)
endif()

# FlatBuffers is used header-only; flatc compiles the schemas into the build tree.
find_program(FLATC flatc)
find_path(FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h)
if(NOT FLATC OR NOT FLATBUFFERS_INCLUDE)
  message(FATAL_ERROR "flatc or flatbuffers/flatbuffers.h not found: install flatbuffers-compiler libflatbuffers-dev")
endif()
foreach(schema index manifest)
  add_custom_command(
    OUTPUT ${CMAKE_BINARY_DIR}/generated/${schema}_generated.h
    COMMAND ${FLATC} --cpp --scoped-enums -o ${CMAKE_BINARY_DIR}/generated ${CMAKE_SOURCE_DIR}/spec/${schema}.fbs
    DEPENDS ${CMAKE_SOURCE_DIR}/spec/index.fbs ${CMAKE_SOURCE_DIR}/spec/${schema}.fbs)
endforeach()
add_custom_target(dsckpt_schema DEPENDS ${CMAKE_BINARY_DIR}/generated/index_generated.h
                                        ${CMAKE_BINARY_DIR}/generated/manifest_generated.h)
add_library(dep_flatbuffers INTERFACE)
target_include_directories(dep_flatbuffers SYSTEM INTERFACE ${CMAKE_BINARY_DIR}/generated ${FLATBUFFERS_INCLUDE})
add_dependencies(dep_flatbuffers dsckpt_schema)

# Header-only JSON: the safetensors header (format/) and --json (tools/).
find_path(NLOHMANN_INCLUDE nlohmann/json.hpp)
if(NOT NLOHMANN_INCLUDE)
  message(FATAL_ERROR "nlohmann/json.hpp not found: install nlohmann-json3-dev")
endif()
add_library(dep_json INTERFACE)
target_include_directories(dep_json SYSTEM INTERFACE ${NLOHMANN_INCLUDE})

# Header-only command line and formatting, for tools, examples and bench.
find_path(CLI11_INCLUDE CLI/CLI.hpp)
find_path(FMT_INCLUDE fmt/format.h)
if((DSCKPT_BUILD_TOOLS OR DSCKPT_BUILD_BENCH) AND (NOT CLI11_INCLUDE OR NOT FMT_INCLUDE))
  message(FATAL_ERROR "CLI/CLI.hpp or fmt/format.h not found: install libcli11-dev libfmt-dev")
endif()
add_library(dep_cli INTERFACE)
target_include_directories(dep_cli SYSTEM INTERFACE ${CLI11_INCLUDE} ${FMT_INCLUDE})
target_compile_definitions(dep_cli INTERFACE FMT_HEADER_ONLY=1)
