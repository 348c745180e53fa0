# This machine with LLVM's compiler; programs run as they are.
set(machine clang)
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR ${CMAKE_HOST_SYSTEM_PROCESSOR})
find_program(HEDDLE_CLANG NAMES clang-19 clang)
set(CMAKE_C_COMPILER ${HEDDLE_CLANG})
set(CMAKE_CXX_COMPILER NOTFOUND)
set(CMAKE_CROSSCOMPILING_EMULATOR ${CMAKE_CURRENT_LIST_DIR}/../../test/cross/emulate ${machine})
