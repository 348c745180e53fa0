# 32-bit x86. The kernel of an x86-64 machine runs such programs as they are, given the loader and libraries of the cross compiler.
set(machine i386)
set(triple i686-linux-gnu)
set(CMAKE_SYSTEM_PROCESSOR i686)
set(CMAKE_EXE_LINKER_FLAGS_INIT "-Wl,--dynamic-linker=/usr/${triple}/lib/ld-linux.so.2 -Wl,-rpath,/usr/${triple}/lib")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-Wl,-rpath,/usr/${triple}/lib")
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
