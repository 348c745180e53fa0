# Seeded faults: the library broken by one wrong line at a time, and the layer that notices. See seeded.
if(HEDDLE_SANITIZE OR NOT HEDDLE_SHIM_SOURCES)
  return() # the layers that judge are those of a plain build
endif()
set(seeded_status 1)
if(Python3_EXECUTABLE)
  execute_process(COMMAND ${Python3_EXECUTABLE} -c "import click, rich, pytest"
    RESULT_VARIABLE seeded_status OUTPUT_QUIET ERROR_QUIET)
endif()
if(NOT seeded_status EQUAL 0)
  heddle_test_missing(seeded "click, rich or pytest")
  return()
endif()

# How this build makes things, for the script to make them again with one file changed.
set(seeded_programs "")
function(seeded_program name)
  set(libraries "")
  if(ARGN MATCHES cmocka)
    set(libraries ${CMOCKA_LIBRARY})
  endif()
  set(source "")
  if(name MATCHES "^unit_(.*)")
    set(source "unit/${CMAKE_MATCH_1}.c")
  elseif(name STREQUAL hardened_unit)
    set(source "hardened/hardened.c")
  endif()
  string(APPEND seeded_programs "${seeded_comma}\n  \"${name}\": {\"file\": \"$<TARGET_FILE:test_${name}>\", \"source\": \"${source}\","
    " \"objects\": \"$<TARGET_OBJECTS:test_${name}>\", \"link\": \"$<TARGET_PROPERTY:test_${name},LINK_OPTIONS>\","
    " \"libraries\": \"${libraries}\"}")
  set(seeded_programs "${seeded_programs}" PARENT_SCOPE)
  set(seeded_comma "," PARENT_SCOPE)
endfunction()

if(NOT CMOCKA_INCLUDE_DIR OR NOT CMOCKA_LIBRARY OR NOT TARGET test_operators)
  heddle_test_missing(seeded "cmocka or a C++ compiler")
  return()
endif()
foreach(name ${unit_sources})
  get_filename_component(name ${name} NAME_WE)
  seeded_program(unit_${name} cmocka)
endforeach()
foreach(name limits_api limits_process threads_api hardened_unit)
  seeded_program(${name} cmocka)
endforeach()
foreach(name growth sparse model_api operators arena_traps arena_model arena_fault pool_model pool_threads pool_fault handle_model
    string_pool_model index_model first_api early race_plain one_user leave_api ends_api fork_api fork_ways_api fork_handlers_api return_api
    hourly faults deepbind filtered_api rights_api own_clock)
  seeded_program(${name})
endforeach()
string(TOUPPER "${CMAKE_BUILD_TYPE}" type)
file(GENERATE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/seeded.json CONTENT "{
\"cc\": \"${CMAKE_C_COMPILER}\", \"source\": \"${HEDDLE_SRC_DIR}\", \"include\": \"${HEDDLE_INCLUDE_DIR}\",
\"build\": \"$<TARGET_FILE_DIR:heddle_shared>\", \"test_programs\": \"${CMAKE_CURRENT_BINARY_DIR}/..\",
\"flags\": \"${CMAKE_C_FLAGS} ${CMAKE_C_FLAGS_${type}}\", \"options\": \"$<TARGET_PROPERTY:heddle_objects,COMPILE_OPTIONS>\",
\"objects\": \"$<TARGET_OBJECTS:heddle_objects>\", \"shims\": \"$<TARGET_OBJECTS:heddle_shims>;$<TARGET_OBJECTS:heddle_shared>\",
\"link\": \"$<TARGET_PROPERTY:heddle_shared,LINK_OPTIONS>\", \"support\": \"$<TARGET_FILE:test_api>\", \"programs\": {${seeded_programs}
}}
")

set(seeded ${Python3_EXECUTABLE} -B ${CMAKE_CURRENT_SOURCE_DIR}/seeded --recipe ${CMAKE_CURRENT_BINARY_DIR}/seeded.json)
add_test(NAME seeded.sample COMMAND ${seeded} --sample 6 --out ${CMAKE_CURRENT_BINARY_DIR}/seeded-sample)
set_tests_properties(seeded.sample PROPERTIES TIMEOUT 180 LABELS gate)
add_test(NAME seeded.canary COMMAND ${seeded} --canary --out ${CMAKE_CURRENT_BINARY_DIR}/seeded-canary)
set_tests_properties(seeded.canary PROPERTIES TIMEOUT 60 LABELS gate
  PASS_REGULAR_EXPRESSION "2 of 2 faults, 2 survived, 1 texts gone")
add_test(NAME seeded.all COMMAND ${seeded} --out ${CMAKE_CURRENT_BINARY_DIR}/seeded-all CONFIGURATIONS long)
set_tests_properties(seeded.all PROPERTIES TIMEOUT 7200 LABELS long PROCESSORS 2)
