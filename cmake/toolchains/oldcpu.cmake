# x86-64 as it began: programs run on an emulated processor of 2006, without POPCNT, BMI or AVX.
set(machine oldcpu)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR x86_64)
set(CMAKE_C_COMPILER gcc)
set(CMAKE_CXX_COMPILER NOTFOUND)
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/../../test/cross/emulate ${machine})
