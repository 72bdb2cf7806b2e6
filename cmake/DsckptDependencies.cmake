# Third-party libraries, from the system's packages.

find_package(Threads REQUIRED)

if(DSCKPT_STATIC_DEPENDENCIES)
  set(CMAKE_FIND_LIBRARY_SUFFIXES .a)
endif()
include(DsckptFindLibrary)
dsckpt_find_libraries(${DSCKPT_WITH_URING})

# FlatBuffers is used header-only; flatc compiles the schemas into the build tree.
find_program(FLATC flatc)
find_path(FLATBUFFERS_INCLUDE flatbuffers/flatbuffers.h)
if(NOT FLATC OR NOT FLATBUFFERS_INCLUDE)
  message(FATAL_ERROR "dsckpt: flatc or flatbuffers/flatbuffers.h not found: install flatbuffers-compiler libflatbuffers-dev")
endif()
foreach(schema spec/index spec/manifest tools/arrow)
  cmake_path(GET schema FILENAME schema_name)
  set(schema_header ${PROJECT_BINARY_DIR}/generated/${schema_name}_generated.h)
  add_custom_command(
    OUTPUT ${schema_header}
    COMMAND ${FLATC} --cpp --scoped-enums -o ${PROJECT_BINARY_DIR}/generated ${PROJECT_SOURCE_DIR}/${schema}.fbs
    DEPENDS ${PROJECT_SOURCE_DIR}/spec/index.fbs ${PROJECT_SOURCE_DIR}/${schema}.fbs)
  list(APPEND schema_headers ${schema_header})
endforeach()
add_custom_target(dsckpt_schema DEPENDS ${schema_headers})
add_library(dsckpt_dep_flatbuffers INTERFACE)
target_include_directories(dsckpt_dep_flatbuffers SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/generated ${FLATBUFFERS_INCLUDE})
# Its inline functions are weak symbols: in a program with another version of FlatBuffers the linker would take one
# version for both. Under a name of its own, this one meets no other.
target_compile_definitions(dsckpt_dep_flatbuffers INTERFACE flatbuffers=dsckpt_flatbuffers)
add_dependencies(dsckpt_dep_flatbuffers dsckpt_schema)

# Header-only JSON: the safetensors header (format/) and --json (tools/).
find_path(NLOHMANN_INCLUDE nlohmann/json.hpp)
if(NOT NLOHMANN_INCLUDE)
  message(FATAL_ERROR "dsckpt: nlohmann/json.hpp not found: install nlohmann-json3-dev")
endif()
add_library(dsckpt_dep_json INTERFACE)
target_include_directories(dsckpt_dep_json SYSTEM INTERFACE ${NLOHMANN_INCLUDE})

# Highway, for numerics/, which chooses among instruction sets itself: distributions have the library that would do it as
# a shared one only. Of Highway only headers are used.
find_path(HIGHWAY_INCLUDE hwy/highway.h)
if(NOT HIGHWAY_INCLUDE)
  message(FATAL_ERROR "dsckpt: hwy/highway.h not found: install libhwy-dev")
endif()
add_library(dsckpt_dep_highway INTERFACE)
target_include_directories(dsckpt_dep_highway SYSTEM INTERFACE ${HIGHWAY_INCLUDE})
# As with FlatBuffers.
target_compile_definitions(dsckpt_dep_highway INTERFACE hwy=dsckpt_highway)

# Command line and formatting, for tools and bench. Of fmt only headers are used.
find_path(CLI11_INCLUDE CLI/CLI.hpp)
find_path(FMT_INCLUDE fmt/format.h)
if((DSCKPT_BUILD_TOOLS OR DSCKPT_BUILD_BENCH) AND (NOT CLI11_INCLUDE OR NOT FMT_INCLUDE))
  message(FATAL_ERROR "dsckpt: CLI/CLI.hpp or fmt/format.h not found: install libcli11-dev libfmt-dev")
endif()
add_library(dsckpt_dep_cli INTERFACE)
target_include_directories(dsckpt_dep_cli SYSTEM INTERFACE ${CLI11_INCLUDE} ${FMT_INCLUDE})

# The page of dsckpt report, which browsers decompress.
if(DSCKPT_BUILD_TOOLS)
  dsckpt_find_library(zlib zlib.h z zlib1g-dev)
endif()
