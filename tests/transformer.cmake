foreach(name transformer_parameters transformer_layers transformer_memory)
  railyard_test(${name} railyard_transformer yaml-cpp::yaml-cpp)
endforeach()
