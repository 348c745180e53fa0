# heddle_flags: how every object of the library is compiled. Tests that compile core files themselves link to it as well.
include(CheckCCompilerFlag)

add_library(heddle_flags INTERFACE)
target_include_directories(heddle_flags INTERFACE ${HEDDLE_SRC_DIR} ${HEDDLE_INCLUDE_DIR})

# no-builtin        or gcc turns malloc + memset inside calloc into a call of calloc
# initial-exec      a thread-local word costs one load; 8 bytes of it fit into the static reserve, also after dlopen
# no-lto            the override object and the archive must hold machine code whatever the project around does
# function-sections the linker can put together what every program runs (src/heddle.ld),
# no-common         and the variables that every process writes; before GCC 10 not by itself
target_compile_options(heddle_flags INTERFACE
  -std=gnu11 -fPIC -fno-builtin -fvisibility=hidden -ftls-model=initial-exec -fno-lto -ffunction-sections -fno-common
  -Wall -Wextra -Wshadow -Wstrict-prototypes
  $<$<CONFIG:Release>:-O2> $<$<CONFIG:RelWithDebInfo>:-O2> $<$<CONFIG:Debug>:-O1>)

# Each of these is worth time on the fast paths, none is needed; the last keeps jumps off 32-byte boundaries, which cost
# Intel processors of 2015 to 2019 up to a fifth of a malloc/free pair (the JCC erratum).
foreach(flag -fno-semantic-interposition -fno-plt -Wa,-mbranches-within-32B-boundaries)
  string(MAKE_C_IDENTIFIER "HEDDLE_HAS_${flag}" known)
  check_c_compiler_flag(${flag} ${known})
  if(${known})
    target_compile_options(heddle_flags INTERFACE ${flag})
  endif()
endforeach()

if(HEDDLE_DEBUG)
  target_compile_definitions(heddle_flags INTERFACE HD_DEBUG=1)
endif()
if(HEDDLE_WERROR)
  target_compile_options(heddle_flags INTERFACE -Werror)
endif()
if(HEDDLE_SANITIZE)
  target_compile_options(heddle_flags INTERFACE -fsanitize=${HEDDLE_SANITIZE} -fno-omit-frame-pointer -g)
  # The option form and not a library name: whoever links the archive needs the sanitizer's run time too.
  target_link_options(heddle_flags INTERFACE -fsanitize=${HEDDLE_SANITIZE})
endif()
