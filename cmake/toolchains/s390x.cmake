# IBM Z: 64 bits, big endian.
set(machine s390x)
set(triple s390x-linux-gnu)
set(CMAKE_SYSTEM_PROCESSOR s390x)
include(${CMAKE_CURRENT_LIST_DIR}/cross.cmake)
