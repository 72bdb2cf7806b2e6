# dsckpt::dsckpt, the library that programs link, and its installation.

add_library(dsckpt $<TARGET_OBJECTS:dsckpt_format> $<TARGET_OBJECTS:dsckpt_io> $<TARGET_OBJECTS:dsckpt_run>
            $<TARGET_OBJECTS:dsckpt_writer> $<TARGET_OBJECTS:dsckpt_reader> $<$<BOOL:${DSCKPT_WITH_CUDA}>:$<TARGET_OBJECTS:dsckpt_kernels>>)
add_library(dsckpt::dsckpt ALIAS dsckpt)
target_compile_features(dsckpt PUBLIC cxx_std_20)
target_include_directories(dsckpt PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(dsckpt PRIVATE $<BUILD_INTERFACE:dsckpt_options> dsckpt::xxhash dsckpt::zstd PUBLIC Threads::Threads)
if(DSCKPT_WITH_URING)
  target_link_libraries(dsckpt PRIVATE dsckpt::uring)
endif()
set_target_properties(dsckpt PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})

if(DSCKPT_WITH_CUDA)
  target_link_libraries(dsckpt PRIVATE CUDA::cudart_static)
  # What nvcc would add by itself for every program that links an object of its making.
  set_target_properties(dsckpt PROPERTIES CUDA_RUNTIME_LIBRARY None)
endif()

if(NOT DSCKPT_INSTALL)
  return()
endif()

include(CMakePackageConfigHelpers)
set(package_directory ${CMAKE_INSTALL_LIBDIR}/cmake/dsckpt)
install(TARGETS dsckpt EXPORT dsckptTargets)
install(DIRECTORY include/dsckpt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT dsckptTargets NAMESPACE dsckpt:: DESTINATION ${package_directory})
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/dsckptConfigVersion.cmake COMPATIBILITY SameMinorVersion)
configure_file(cmake/dsckptConfig.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/dsckptConfig.cmake @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dsckptConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/dsckptConfigVersion.cmake
        cmake/DsckptFindLibrary.cmake DESTINATION ${package_directory})

# A program that links the static library links what it needs as well; the shared one brings it along.
set(requires "libxxhash, libzstd")
if(DSCKPT_WITH_URING)
  string(APPEND requires ", liburing")
endif()
get_target_property(library_type dsckpt TYPE)
if(library_type STREQUAL SHARED_LIBRARY)
  set(DSCKPT_PC_REQUIRES "Requires.private: ${requires}")
else()
  set(DSCKPT_PC_REQUIRES "Requires: ${requires}")
  set(DSCKPT_PC_LIBS "-lstdc++ -pthread")
  if(DSCKPT_WITH_CUDA)
    set(DSCKPT_PC_LIBS "-L${CUDAToolkit_LIBRARY_DIR} -lcudart_static -ldl -lrt ${DSCKPT_PC_LIBS}")
  endif()
endif()
# Relative to the file itself, so that an installed tree can be moved.
set(pc_directory ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
file(RELATIVE_PATH DSCKPT_PC_PREFIX ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig ${CMAKE_INSTALL_PREFIX})
configure_file(cmake/dsckpt.pc.in ${CMAKE_CURRENT_BINARY_DIR}/dsckpt.pc @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dsckpt.pc DESTINATION ${pc_directory})
