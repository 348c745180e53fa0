# The fuzz targets, for the replays (any compiler) and for libFuzzer (clang). heddle_fuzz_target(name file [definitions...])
get_filename_component(fuzz_dir ${CMAKE_CURRENT_LIST_FILE} DIRECTORY)
foreach(part ops choose heaps objects misuse shadow)
  list(APPEND fuzz_driver ${fuzz_dir}/../model/${part}.c)
endforeach()
list(APPEND fuzz_driver ${fuzz_dir}/../support/support.c ${fuzz_dir}/../support/sut.c)

set(HEDDLE_FUZZ_TARGETS ops threads realloc options text arena pool index_pool index_file string_pool handle)

# In a function of the includer: fuzz_program(name sources...) makes the executable fuzz_<name>.
foreach(name ${HEDDLE_FUZZ_TARGETS} canary)
  if(name MATCHES "^(ops|threads|canary)$")
    fuzz_program(${name} ${fuzz_dir}/ops.c ${fuzz_driver})
    target_compile_definitions(fuzz_${name} PRIVATE TS_API SLOT_COUNT=64) # few slots: operations should meet
  else()
    fuzz_program(${name} ${fuzz_dir}/${name}.c)
  endif()
  target_sources(fuzz_${name} PRIVATE ${fuzz_dir}/fuzz.c)
endforeach()
target_compile_definitions(fuzz_threads PRIVATE FUZZ_THREADS)
target_compile_definitions(fuzz_canary PRIVATE FUZZ_CANARY)
foreach(function hdi_os_read_file hdi_os_write)
  target_link_options(fuzz_options PRIVATE -Wl,--wrap=${function})
endforeach()
