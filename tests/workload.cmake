foreach(test ring direct)
  railyard_test(collective_${test} railyard_collective railyard_infiniband)
endforeach()
