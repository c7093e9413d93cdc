# The QuickJS build (crate v8x) asks CMake's FetchContent to clone the simde headers. This toolchain file
# hands it the installed ones instead, so that the build needs no network. xtask sets SIMDE_INCLUDE_DIR.
if(DEFINED ENV{SIMDE_INCLUDE_DIR})
  set(FETCHCONTENT_SOURCE_DIR_SIMDE "$ENV{SIMDE_INCLUDE_DIR}" CACHE PATH "folder that holds simde/")
else()
  set(FETCHCONTENT_SOURCE_DIR_SIMDE "/usr/include" CACHE PATH "folder that holds simde/")
endif()
