# GPU memory: DSCKPT_WITH_CUDA becomes ON or OFF for the rest of the project. Building needs CUDA's toolkit, no GPU.

if(DSCKPT_WITH_CUDA STREQUAL "AUTO")
  set(DSCKPT_WITH_CUDA OFF)
  find_package(CUDAToolkit 12 QUIET)
  if(CUDAToolkit_FOUND AND CUDAToolkit_NVCC_EXECUTABLE AND TARGET CUDA::cudart_static)
    include(CheckLanguage)
    if(NOT DEFINED ENV{CUDACXX} AND NOT DEFINED CMAKE_CUDA_COMPILER)
      set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
    endif()
    # A toolkit that does not go with this host compiler is none.
    check_language(CUDA)
    if(CMAKE_CUDA_COMPILER)
      set(DSCKPT_WITH_CUDA ON)
    endif()
  endif()
  message(STATUS "dsckpt: GPU memory (DSCKPT_WITH_CUDA=AUTO): ${DSCKPT_WITH_CUDA}")
endif()

if(DSCKPT_WITH_CUDA)
  # Machine code for A100 and H100/H200, and code that later GPUs translate for themselves.
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
  endif()
  enable_language(CUDA)
  find_package(CUDAToolkit REQUIRED)
endif()
