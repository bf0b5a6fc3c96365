# What `cmake --install` puts where: both libraries, the BLAS drop-in, headers, the command with its man page, the
# CMake package, the pkg-config file, and the small example model.
include(CMakePackageConfigHelpers)

set(um_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/umbel)
install(TARGETS umbel_shared umbel_static EXPORT umbel_targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY include/umbel DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}
  FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
install(FILES LICENSE README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(DIRECTORY models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/umbel/models)
if(TARGET umbel_blas)
  install(TARGETS umbel_blas LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
endif()
if(TARGET umbel)
  install(TARGETS umbel RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
  install(FILES doc/umbel.1 DESTINATION ${CMAKE_INSTALL_MANDIR}/man1)
endif()

# find_package(umbel [COMPONENTS shared static])
install(EXPORT umbel_targets NAMESPACE umbel:: DESTINATION ${um_package_dir})
configure_package_config_file(cmake/umbelConfig.cmake.in ${PROJECT_BINARY_DIR}/umbelConfig.cmake
  INSTALL_DESTINATION ${um_package_dir} NO_SET_AND_CHECK_MACRO)
write_basic_package_version_file(${PROJECT_BINARY_DIR}/umbelConfigVersion.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${PROJECT_BINARY_DIR}/umbelConfig.cmake ${PROJECT_BINARY_DIR}/umbelConfigVersion.cmake
  DESTINATION ${um_package_dir})

# The pkg-config file finds the prefix from its own place, so a moved installation still works.
set(um_pc_libdir ${CMAKE_INSTALL_FULL_LIBDIR})
set(um_pc_includedir ${CMAKE_INSTALL_FULL_INCLUDEDIR})
set(um_pc_prefix ${CMAKE_INSTALL_PREFIX})
if(NOT IS_ABSOLUTE "${CMAKE_INSTALL_LIBDIR}" AND NOT IS_ABSOLUTE "${CMAKE_INSTALL_INCLUDEDIR}")
  file(RELATIVE_PATH um_pc_up /prefix/${CMAKE_INSTALL_LIBDIR}/pkgconfig /prefix)
  set(um_pc_prefix "\${pcfiledir}/${um_pc_up}")
  set(um_pc_libdir "\${prefix}/${CMAKE_INSTALL_LIBDIR}")
  set(um_pc_includedir "\${prefix}/${CMAKE_INSTALL_INCLUDEDIR}")
endif()
set(um_pc_dl)
if(CMAKE_DL_LIBS)
  set(um_pc_dl -l${CMAKE_DL_LIBS})
endif()
configure_file(cmake/umbel.pc.in ${PROJECT_BINARY_DIR}/umbel.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/umbel.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
