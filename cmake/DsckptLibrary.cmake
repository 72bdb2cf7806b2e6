# dsckpt::dsckpt, the library that programs link, and its installation.

add_library(dsckpt $<TARGET_OBJECTS:dsckpt_format> $<TARGET_OBJECTS:dsckpt_io> $<TARGET_OBJECTS:dsckpt_run>
            $<TARGET_OBJECTS:dsckpt_writer> $<TARGET_OBJECTS:dsckpt_reader> $<$<BOOL:${DSCKPT_WITH_CUDA}>:$<TARGET_OBJECTS:dsckpt_kernels>>)
add_library(dsckpt::dsckpt ALIAS dsckpt)
target_compile_features(dsckpt PUBLIC cxx_std_20)
target_include_directories(dsckpt PUBLIC $<BUILD_INTERFACE:${CMAKE_CURRENT_SOURCE_DIR}/include>
                           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(dsckpt PRIVATE $<BUILD_INTERFACE:dsckpt_options> PUBLIC Threads::Threads)
set_target_properties(dsckpt PROPERTIES VERSION ${PROJECT_VERSION} SOVERSION ${PROJECT_VERSION_MAJOR})
foreach(dependency xxhash zstd uring)
  if(TARGET dep::${dependency})
    get_target_property(location dep::${dependency} IMPORTED_LOCATION)
    target_link_libraries(dsckpt PRIVATE ${location})
  endif()
endforeach()

if(DSCKPT_WITH_CUDA)
  find_library(DSCKPT_CUDART_LIBRARY cudart_static HINTS ${CMAKE_CUDA_IMPLICIT_LINK_DIRECTORIES} REQUIRED)
  target_link_libraries(dsckpt PRIVATE ${DSCKPT_CUDART_LIBRARY} ${CMAKE_DL_LIBS} rt)
  # What nvcc would add by itself for every program that links an object of its making.
  set_target_properties(dsckpt PROPERTIES CUDA_RUNTIME_LIBRARY None)
endif()

include(CMakePackageConfigHelpers)
if(DSCKPT_WITH_MPI)
  set(DSCKPT_FIND_MPI "find_dependency(MPI COMPONENTS CXX)")
endif()
install(TARGETS dsckpt EXPORT dsckptTargets)
install(DIRECTORY include/dsckpt DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
install(EXPORT dsckptTargets NAMESPACE dsckpt:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dsckpt)
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/dsckptConfigVersion.cmake COMPATIBILITY SameMinorVersion)
file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/dsckptConfig.cmake @ONLY CONTENT
"include(CMakeFindDependencyMacro)
find_dependency(Threads)
@DSCKPT_FIND_MPI@
include(\${CMAKE_CURRENT_LIST_DIR}/dsckptTargets.cmake)
")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/dsckptConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/dsckptConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/dsckpt)
