# What the toolchain files of other machines share. Each sets CMAKE_SYSTEM_PROCESSOR and `triple`, the name of Debian's cross compiler
# (package gcc-<triple>); programs run under qemu-user by test/cross/emulate, as if they were built for this machine.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_C_COMPILER ${triple}-gcc)
set(CMAKE_OBJCOPY ${triple}-objcopy CACHE STRING "")
find_program(HEDDLE_CROSS_CXX ${triple}-g++)
if(HEDDLE_CROSS_CXX)
  set(CMAKE_CXX_COMPILER ${HEDDLE_CROSS_CXX})
else()
  set(CMAKE_CXX_COMPILER NOTFOUND) # or CMake would take this machine's own
endif()
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/../../test/cross/emulate ${machine})
set(CMAKE_FIND_ROOT_PATH /usr/${triple})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
