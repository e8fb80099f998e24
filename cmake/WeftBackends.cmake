# Optional communication backends. weft/comm/world has two files for each: <name>.cpp, and <name>_absent.cpp that stands in
# for it. The one not chosen goes to WEFT_EXCLUDED_SOURCES; a test of an excluded source is not built.
set(WEFT_EXCLUDED_SOURCES "")

macro(weft_backend name found why_not)
  if(${found})
    list(APPEND WEFT_EXCLUDED_SOURCES weft/comm/world/${name}_absent.cpp)
    message(STATUS "weft: ${name} backend on")
  else()
    list(APPEND WEFT_EXCLUDED_SOURCES weft/comm/world/${name}.cpp)
    message(STATUS "weft: ${name} backend off, its test is not built (${why_not})")
  endif()
endmacro()

# The library is inside libtorch_cpu; only the headers, which the pip package leaves out, come from the system.
find_path(WEFT_GLOO_INCLUDE_DIR gloo/rendezvous/context.h)
weft_backend(gloo WEFT_GLOO_INCLUDE_DIR "gloo/rendezvous/context.h not found")

# Likewise: libtorch_cuda holds the process group, and pip's nvidia-nccl package, next to torch, holds nccl.h.
if(TARGET torch_cuda)
  find_path(WEFT_NCCL_INCLUDE_DIR nccl.h HINTS "${TORCH_INSTALL_PREFIX}/../nvidia/nccl/include")
  weft_backend(nccl WEFT_NCCL_INCLUDE_DIR "nccl.h not found")
else()
  set(WEFT_NCCL_INCLUDE_DIR "")
  weft_backend(nccl WEFT_NCCL_INCLUDE_DIR "torch has no CUDA")
endif()

# The kernel of random numbers on CUDA devices; likewise weft/tensor/random/random_cuda_absent.cpp stands in for it. Torch's
# package enables the language where it has CUDA and finds nvcc.
if(TARGET torch_cuda AND CMAKE_CUDA_COMPILER)
  set(WEFT_CUDA_SOURCES weft/tensor/random/random_cuda.cu)
  list(APPEND WEFT_EXCLUDED_SOURCES weft/tensor/random/random_cuda_absent.cpp)
  message(STATUS "weft: random numbers on CUDA on")
else()
  set(WEFT_CUDA_SOURCES "")
  message(STATUS "weft: random numbers on CUDA off (torch has no CUDA, or nvcc was not found)")
endif()
