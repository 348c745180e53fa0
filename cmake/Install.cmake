# Install rules: libraries, headers, CMake package, pkg-config file, man pages.
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/heddle)

install(TARGETS heddle_shared heddle_static heddle_override_link EXPORT heddle-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${HEDDLE_OVERRIDE_OBJECT} DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(FILES ${HEDDLE_INCLUDE_DIR}/heddle.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
if(IS_DIRECTORY ${HEDDLE_INCLUDE_DIR}/heddle)
  install(DIRECTORY ${HEDDLE_INCLUDE_DIR}/heddle DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h*")
endif()

install(EXPORT heddle-targets NAMESPACE heddle:: DESTINATION ${package_dir})
configure_package_config_file(cmake/heddle-config.cmake.in ${CMAKE_CURRENT_BINARY_DIR}/heddle-config.cmake
  INSTALL_DESTINATION ${package_dir} NO_SET_AND_CHECK_MACRO)
# Below 1.0 a minor release may change the interface.
write_basic_package_version_file(${CMAKE_CURRENT_BINARY_DIR}/heddle-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/heddle-config.cmake ${CMAKE_CURRENT_BINARY_DIR}/heddle-config-version.cmake
  DESTINATION ${package_dir})

# Directories given relative to the prefix stay relative, so that the file follows `pkg-config --define-prefix`.
foreach(kind LIBDIR INCLUDEDIR)
  if(IS_ABSOLUTE ${CMAKE_INSTALL_${kind}})
    set(pc_${kind} ${CMAKE_INSTALL_${kind}})
  else()
    set(pc_${kind} "\${prefix}/${CMAKE_INSTALL_${kind}}")
  endif()
endforeach()
set(HEDDLE_PREFIX @HEDDLE_PREFIX@)
configure_file(cmake/heddle.pc.in ${CMAKE_CURRENT_BINARY_DIR}/heddle.pc.in @ONLY)
# Filled in at install time: `cmake --install --prefix` may name another prefix than the one configured.
install(CODE "set(HEDDLE_PC_IN \"${CMAKE_CURRENT_BINARY_DIR}/heddle.pc.in\")
set(HEDDLE_PC_OUT \"${CMAKE_CURRENT_BINARY_DIR}/heddle.pc\")
set(HEDDLE_PREFIX \"\${CMAKE_INSTALL_PREFIX}\")
configure_file(\"\${HEDDLE_PC_IN}\" \"\${HEDDLE_PC_OUT}\" @ONLY)")
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/heddle.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)

foreach(section 1 3 7)
  file(GLOB pages CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/docs/man/*.${section})
  install(FILES ${pages} DESTINATION ${CMAKE_INSTALL_MANDIR}/man${section})
endforeach()

# The command: one launcher, and the Python modules out of the way of the system's own.
configure_file(cmake/heddle-command.in ${CMAKE_CURRENT_BINARY_DIR}/heddle-command @ONLY)
install(PROGRAMS ${CMAKE_CURRENT_BINARY_DIR}/heddle-command DESTINATION ${CMAKE_INSTALL_BINDIR} RENAME heddle)
install(DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/tools/heddle DESTINATION ${CMAKE_INSTALL_DATADIR}/heddle/python
  PATTERN __pycache__ EXCLUDE)
