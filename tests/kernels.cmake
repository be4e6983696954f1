foreach(name kernels_gemm kernels_attention kernels_memory_bound kernels_spec kernels_datasheets kernels_facts kernels_measurements)
  railyard_test(${name} railyard_kernels railyard_scenario)
endforeach()
