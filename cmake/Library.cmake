# The three forms of the library, from one set of objects:
#   heddle_shared     libheddle.so        API and override, for LD_PRELOAD and for linking     alias heddle::heddle
#   heddle_static     libheddle.a         API alone: malloc stays the C library's              alias heddle::static
#   heddle_override   heddle-override.o   API and override in one object to link first         alias heddle::override
string(TOLOWER ${CMAKE_SYSTEM_NAME} system)
set(HEDDLE_OS_SOURCE ${HEDDLE_SRC_DIR}/os/os_${system}.c)
if(NOT EXISTS ${HEDDLE_OS_SOURCE})
  message(FATAL_ERROR "Heddle does not run on ${CMAKE_SYSTEM_NAME} yet: there is no src/os/os_${system}.c")
endif()
# os_fault.c is not among them: it is a layer that tests put between, see test/.
file(GLOB HEDDLE_OS_SOURCES CONFIGURE_DEPENDS ${HEDDLE_SRC_DIR}/os/os_${system}.c ${HEDDLE_SRC_DIR}/os/${system}_*.c)
file(GLOB HEDDLE_BASE_SOURCES CONFIGURE_DEPENDS ${HEDDLE_SRC_DIR}/base/*.c)
file(GLOB HEDDLE_CORE_SOURCES CONFIGURE_DEPENDS ${HEDDLE_SRC_DIR}/core/*.c ${HEDDLE_SRC_DIR}/objects/*.c)
file(GLOB HEDDLE_SHIM_SOURCES CONFIGURE_DEPENDS ${HEDDLE_SRC_DIR}/override/*.c)
# start_*.c defines no malloc: it belongs to every form.
file(GLOB start_sources CONFIGURE_DEPENDS ${HEDDLE_SRC_DIR}/override/start_*.c)
if(start_sources)
  list(REMOVE_ITEM HEDDLE_SHIM_SOURCES ${start_sources})
endif()
# *_shared.c is for the shared library alone.
file(GLOB shared_sources CONFIGURE_DEPENDS ${HEDDLE_SRC_DIR}/override/*_shared.c)
if(shared_sources)
  list(REMOVE_ITEM HEDDLE_SHIM_SOURCES ${shared_sources})
  # dlopen's last call has to be a jump in every kind of build.
  set_source_files_properties(${shared_sources} PROPERTIES COMPILE_OPTIONS "-O2;-fno-sanitize=all")
endif()
# What every program writes lies on few pages: the less of the library a small process has in memory. Files with large tables come last
# of these, and then what the smallest programs do without. (What every program runs: heddle.ld.)
set(common options page lock gate thread space_grow space remote purge counters store alloc heap space_huge large)
list(TRANSFORM common REPLACE "(.+)" ${HEDDLE_SRC_DIR}/core/\\1.c)
list(REMOVE_ITEM HEDDLE_CORE_SOURCES ${common})
list(PREPEND HEDDLE_CORE_SOURCES ${start_sources} ${common})

# The C++ operators throw through C frames.
file(GLOB throwing CONFIGURE_DEPENDS ${HEDDLE_SRC_DIR}/override/cxx_*.c)
set_source_files_properties(${throwing} PROPERTIES COMPILE_OPTIONS -fexceptions)

add_library(heddle_objects OBJECT ${HEDDLE_BASE_SOURCES} ${HEDDLE_OS_SOURCES} ${HEDDLE_CORE_SOURCES})
target_link_libraries(heddle_objects PRIVATE heddle_flags)
set(objects $<TARGET_OBJECTS:heddle_objects>)
# A new system may have no override yet; then all three forms offer the API alone.
if(HEDDLE_SHIM_SOURCES)
  add_library(heddle_shims OBJECT ${HEDDLE_SHIM_SOURCES})
  target_link_libraries(heddle_shims PRIVATE heddle_flags)
  list(PREPEND objects $<TARGET_OBJECTS:heddle_shims>)
endif()

function(heddle_library target)
  set_target_properties(${target} PROPERTIES
    OUTPUT_NAME heddle
    ARCHIVE_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}
    LIBRARY_OUTPUT_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR})
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${HEDDLE_INCLUDE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  if(HEDDLE_SANITIZE)
    target_link_options(${target} PUBLIC -fsanitize=${HEDDLE_SANITIZE})
  endif()
endfunction()

# ---- shared -----------------------------------------------------------------------------------------------------------

add_library(heddle_shared SHARED ${objects} ${shared_sources})
add_library(heddle::heddle ALIAS heddle_shared)
heddle_library(heddle_shared)
# The number in the soname is the interface's; the file's name adds the release.
set_target_properties(heddle_shared PROPERTIES
  SOVERSION 1 VERSION 1.${PROJECT_VERSION} EXPORT_NAME heddle LINK_DEPENDS ${HEDDLE_SRC_DIR}/heddle.map)
# nodelete: blocks and thread-exit hooks outlive any dlclose. now: the first malloc must not run the lazy binder. init and fini: a name
# that nothing has, or the C compiler's empty functions at the text's two ends would bring both into memory.
target_link_options(heddle_shared PRIVATE
  -Wl,-z,nodelete -Wl,-z,now -Wl,-z,relro -Wl,-init,hdi_none -Wl,-fini,hdi_none -Wl,--version-script=${HEDDLE_SRC_DIR}/heddle.map)
if(NOT HEDDLE_SANITIZE)
  target_link_options(heddle_shared PRIVATE -Wl,-z,defs)
endif()
# The code that every program runs in a segment of its own, where the linker takes a script beside its own (decision 22).
include(CheckCSourceCompiles)
set(HEDDLE_LINKER_SCRIPT ${HEDDLE_SRC_DIR}/heddle.ld)
set(CMAKE_REQUIRED_LINK_OPTIONS -Wl,-T,${HEDDLE_LINKER_SCRIPT})
check_c_source_compiles("int main(void) { return 0; }" HEDDLE_LINKER_TAKES_SCRIPT)
unset(CMAKE_REQUIRED_LINK_OPTIONS)
if(HEDDLE_LINKER_TAKES_SCRIPT)
  target_link_options(heddle_shared PRIVATE -Wl,-T,${HEDDLE_LINKER_SCRIPT})
  set_property(TARGET heddle_shared APPEND PROPERTY LINK_DEPENDS ${HEDDLE_LINKER_SCRIPT})
endif()
target_link_libraries(heddle_shared PRIVATE heddle_flags ${CMAKE_DL_LIBS} pthread)

# ---- static -----------------------------------------------------------------------------------------------------------

add_library(heddle_static STATIC $<TARGET_OBJECTS:heddle_objects>)
add_library(heddle::static ALIAS heddle_static)
heddle_library(heddle_static)
set_target_properties(heddle_static PROPERTIES EXPORT_NAME static)
target_link_libraries(heddle_static INTERFACE ${CMAKE_DL_LIBS} pthread)

# ---- override object --------------------------------------------------------------------------------------------------

# One relocatable object whose hidden symbols are made local, so that it can stand beside other copies of Heddle.
separate_arguments(machine_flags UNIX_COMMAND "${CMAKE_C_FLAGS}")
if(CMAKE_SYSTEM_PROCESSOR MATCHES "^i.86$")
  # gcc's helpers for position-independent code are shared by name between objects: a local copy must not wait for another object's.
  list(APPEND machine_flags -Wl,--force-group-allocation)
endif()
set(merged ${CMAKE_CURRENT_BINARY_DIR}/heddle-merged.o)
add_custom_command(
  OUTPUT ${HEDDLE_OVERRIDE_OBJECT}
  COMMAND ${CMAKE_C_COMPILER} ${machine_flags} -r -nostdlib -o ${merged} ${objects}
  COMMAND ${CMAKE_OBJCOPY} --localize-hidden ${merged} ${HEDDLE_OVERRIDE_OBJECT}
  COMMAND ${CMAKE_COMMAND} -E remove ${merged}
  DEPENDS ${objects}
  COMMAND_EXPAND_LISTS VERBATIM
  COMMENT "Merging heddle-override.o")
add_custom_target(heddle_override ALL DEPENDS ${HEDDLE_OVERRIDE_OBJECT})
add_dependencies(heddle_override heddle_objects)
if(TARGET heddle_shims)
  add_dependencies(heddle_override heddle_shims)
endif()

set(override_installed ${CMAKE_INSTALL_LIBDIR}/heddle-override.o)
if(NOT IS_ABSOLUTE ${override_installed})
  set(override_installed $<INSTALL_PREFIX>/${override_installed})
endif()
add_library(heddle_override_link INTERFACE)
add_library(heddle::override ALIAS heddle_override_link)
set_target_properties(heddle_override_link PROPERTIES EXPORT_NAME override)
target_include_directories(heddle_override_link INTERFACE
  $<BUILD_INTERFACE:${HEDDLE_INCLUDE_DIR}> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
target_link_libraries(heddle_override_link INTERFACE
  $<BUILD_INTERFACE:${HEDDLE_OVERRIDE_OBJECT}> $<INSTALL_INTERFACE:${override_installed}> ${CMAKE_DL_LIBS} pthread)
if(HEDDLE_SANITIZE)
  target_link_options(heddle_override_link INTERFACE -fsanitize=${HEDDLE_SANITIZE})
endif()
add_dependencies(heddle_override_link heddle_override)
