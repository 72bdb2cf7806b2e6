# Builds and runs the programs here as a user of dsckpt would.
# -DWAY= find_package or pkg-config: the build tree -DBUILD= installed; shared: a build of the shared library, installed;
# add_subdirectory or FetchContent. -DSOURCE= dsckpt's sources; -DWORK= a directory for the test's own; -DCXX= -DCC=
# compilers; -DGENERATOR= of CMake. Of shared: -DPYTHON= runs the check of what the library exports; -DUSERS= folders
# with object files that use its public API only.

function(run)
  execute_process(COMMAND ${ARGN} RESULT_VARIABLE result OUTPUT_VARIABLE output ERROR_VARIABLE output)
  if(NOT result EQUAL 0)
    string(REPLACE ";" " " command "${ARGN}")
    message(FATAL_ERROR "${command}: ${result}\n${output}")
  endif()
  set(output "${output}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${WORK})
set(here ${CMAKE_CURRENT_LIST_DIR})
set(build ${WORK}/build)
set(compilers -DCMAKE_CXX_COMPILER=${CXX} -DCMAKE_C_COMPILER=${CC})
# For builds of the library that are run once: what optimizing and nvcc take is time that other tests show already.
set(light -DCMAKE_BUILD_TYPE=None -DDSCKPT_WITH_CUDA=OFF)

if(WAY STREQUAL "shared")
  set(BUILD ${WORK}/dsckpt)
  run(${CMAKE_COMMAND} -S ${SOURCE} -B ${BUILD} -G ${GENERATOR} ${compilers} ${light}
      -DBUILD_SHARED_LIBS=ON -DCMAKE_UNITY_BUILD=ON -DDSCKPT_BUILD_TOOLS=OFF -DDSCKPT_BUILD_EXAMPLES=OFF)
  run(${CMAKE_COMMAND} --build ${BUILD})
  if(PYTHON)
    run(${PYTHON} ${here}/check_exports.py ${BUILD}/libdsckpt.so ${SOURCE}/include/dsckpt ${USERS})
    message(STATUS "${output}")
  endif()
endif()
if(WAY MATCHES "find_package|pkg-config|shared")
  # Moved after its installation: no path of the place where it was first may be left in it.
  run(${CMAKE_COMMAND} --install ${BUILD} --prefix ${WORK}/first)
  file(RENAME ${WORK}/first ${WORK}/installed)
endif()

if(WAY STREQUAL "pkg-config")
  file(GLOB_RECURSE pc ${WORK}/installed/*/dsckpt.pc)
  get_filename_component(pc_directory ${pc} DIRECTORY)
  set(ENV{PKG_CONFIG_PATH} ${pc_directory})
  run(pkg-config --cflags --libs dsckpt)
  string(STRIP "${output}" flags)
  separate_arguments(flags UNIX_COMMAND "${flags}")
  file(MAKE_DIRECTORY ${build})
  run(${CXX} -std=c++20 ${here}/main.cc -o ${build}/consumer ${flags})
  run(${CXX} -std=c++20 -fno-exceptions ${here}/main.cc -o ${build}/consumer_no_exceptions ${flags})
  run(${CC} -std=c11 -c ${here}/main.c -o ${build}/main.o ${flags})
  run(${CC} ${build}/main.o -o ${build}/consumer_c ${flags})
else()
  run(${CMAKE_COMMAND} -S ${here} -B ${build} -G ${GENERATOR} ${compilers} ${light} -DWAY=${WAY}
      -DDSCKPT_SOURCE=${SOURCE} -DCMAKE_PREFIX_PATH=${WORK}/installed -DCMAKE_UNITY_BUILD=ON
      -DCMAKE_CXX_COMPILER_LAUNCHER=${LAUNCHER} -DCMAKE_C_COMPILER_LAUNCHER=${LAUNCHER})
  run(${CMAKE_COMMAND} --build ${build} --target consumer consumer_no_exceptions consumer_c)
endif()
foreach(program consumer consumer_no_exceptions)
  run(${build}/${program} ${WORK}/${program}.dsckpt)
endforeach()
run(${build}/consumer_c ${WORK}/consumer.dsckpt)

# A program may have a FlatBuffers or a Highway of its own, of another version.
file(GLOB_RECURSE libraries ${WORK}/*/libdsckpt.a)
foreach(library ${libraries})
  run(nm -C ${library})
  string(REGEX MATCH "[^\n]* (flatbuffers|hwy)::[^\n]*" symbol "${output}")
  if(symbol)
    message(FATAL_ERROR "${library} has a symbol that another FlatBuffers or Highway has, too: ${symbol}")
  endif()
endforeach()
