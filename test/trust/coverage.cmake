# Coverage of base and core. The whole of it is a build of its own and takes some ten minutes: in the long form, and by test/trust/coverage.
# In the gate: the judge on a sample, and systems that nothing else shows to the library.
set(coverage_status 1)
if(Python3_EXECUTABLE)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import gcovr, click, rich, pytest, tomllib" RESULT_VARIABLE coverage_status
    OUTPUT_QUIET ERROR_QUIET)
endif()
find_program(HEDDLE_GCOV gcov)
if(HEDDLE_GCOV AND coverage_status EQUAL 0)
  add_test(NAME coverage.selftest
    COMMAND ${Python3_EXECUTABLE} -B -m pytest -q -p no:cacheprovider ${CMAKE_CURRENT_SOURCE_DIR}/coverage_selftest.py)
  set_tests_properties(coverage.selftest PROPERTIES TIMEOUT 120 LABELS gate)
else()
  heddle_test_missing(coverage.selftest "gcov or gcovr")
endif()
add_test(NAME coverage.long CONFIGURATIONS long
  COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/coverage ${CMAKE_CURRENT_BINARY_DIR}/build-coverage)
set_tests_properties(coverage.long PROPERTIES TIMEOUT 7200 LABELS long PROCESSORS 2)

# Systems unlike this one, put between the library and the system by the linker.
if(NOT HEDDLE_SANITIZE)
  set(wrap -Wl,--wrap=pthread_key_create,--wrap=hdi_next_get)
  foreach(call init claim commit reserve guard close move purge heavy_barrier heavy_barrier_init resident_in resident_until read_file wait)
    string(APPEND wrap ",--wrap=hdi_os_${call}")
  endforeach()
  foreach(name systems hardened)
    heddle_program(coverage_${name} test_api coverage_${name}.c systems.c)
    target_include_directories(test_coverage_${name} PRIVATE ${HEDDLE_SRC_DIR})
    target_link_options(test_coverage_${name} PRIVATE ${wrap})
    heddle_gate(coverage.${name} coverage_${name})
  endforeach()
endif()
