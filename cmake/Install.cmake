# Install rules, the CMake package (find_package(attenio)) and attenio.pc.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

set(package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/attenio)

install(TARGETS attenio EXPORT attenioTargets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR}
  ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}
  RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/include/attenio DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} FILES_MATCHING PATTERN "*.h")
if(TARGET attenio_cli)
  install(TARGETS attenio_cli DESTINATION ${CMAKE_INSTALL_BINDIR})
endif()

install(EXPORT attenioTargets NAMESPACE attenio:: DESTINATION ${package_dir})
configure_package_config_file(${PROJECT_SOURCE_DIR}/cmake/attenioConfig.cmake.in
  ${PROJECT_BINARY_DIR}/package/attenioConfig.cmake INSTALL_DESTINATION ${package_dir})
# Before 1.0 a minor release may break its users.
write_basic_package_version_file(${PROJECT_BINARY_DIR}/package/attenioConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES
  ${PROJECT_BINARY_DIR}/package/attenioConfig.cmake
  ${PROJECT_BINARY_DIR}/package/attenioConfigVersion.cmake
  DESTINATION ${package_dir})
install(DIRECTORY ${PROJECT_SOURCE_DIR}/cmake/modules DESTINATION ${package_dir})

# pkg-config: a static archive passes on what it links. C programs need the C++ runtime by name.
set(pc_libs "")
set(pc_requires "")
if(NOT BUILD_SHARED_LIBS)
  set(pc_requires libhwy)
  if(ATTENIO_HAVE_HWLOC)
    string(APPEND pc_requires " hwloc")
  endif()
  if(ATTENIO_HAVE_ONEDNN)
    string(APPEND pc_libs " -ldnnl")
  endif()
  if(ATTENIO_HAVE_OPENMP)
    string(APPEND pc_libs " ${OpenMP_CXX_FLAGS}")
  endif()
  string(APPEND pc_libs " -lstdc++ -lm -pthread")
endif()
# The prefix is found from the place of the file, so that an installed tree can be moved.
cmake_path(RELATIVE_PATH CMAKE_INSTALL_FULL_INCLUDEDIR
  BASE_DIRECTORY ${CMAKE_INSTALL_FULL_LIBDIR}/pkgconfig OUTPUT_VARIABLE pc_includedir)
configure_file(${PROJECT_SOURCE_DIR}/cmake/attenio.pc.in ${PROJECT_BINARY_DIR}/package/attenio.pc @ONLY)
install(FILES ${PROJECT_BINARY_DIR}/package/attenio.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
