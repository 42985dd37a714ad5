# Fuzz targets, one program for each: tests/fuzz/NAME.cpp is fuzz_NAME. They need clang and the flags
# of the preset fuzz; tools/fuzz builds and runs them.
foreach(name graph_json case_json plan_json safetensors checkpoint text)
  add_executable(fuzz_${name} tests/fuzz/${name}.cpp)
  target_link_libraries(fuzz_${name} PRIVATE tapehead_warnings tapehead_program_parts)
  target_link_options(fuzz_${name} PRIVATE -fsanitize=fuzzer)
endforeach()
target_sources(fuzz_graph_json
  PRIVATE tests/support/graph_fuzz.cpp tests/support/training_steps.cpp)
