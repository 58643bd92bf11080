# Flags for attenio's own targets: attenio_set_options(target). A project that adds attenio with add_subdirectory keeps
# its own flags.
#
# There is no -ffast-math, because fully masked rows and lowest-finite masks rest on the exact meaning of inf and NaN,
# and no -march, because kernels are chosen at run time: a function compiled for a wide machine and shared by the linker
# would crash a narrow one.

include(CheckCXXCompilerFlag)

function(attenio_set_options target)
  target_compile_features(${target} PRIVATE cxx_std_20)
  set_target_properties(${target} PROPERTIES
    CXX_EXTENSIONS OFF
    C_STANDARD 99
    C_EXTENSIONS OFF
    CXX_VISIBILITY_PRESET hidden
    C_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON
    POSITION_INDEPENDENT_CODE ON)
  target_compile_options(${target} PRIVATE
    -Wall -Wextra -Wshadow
    # A designated initialiser leaves out fields on purpose: they have defaults.
    -Wno-missing-field-initializers
    # Vector types by value change the calling convention between targets; such functions never leave their file.
    $<$<COMPILE_LANG_AND_ID:CXX,GNU>:-Wno-psabi>
    # GCC 12 warns about its own std::string where text is joined or assigned (GCC bug 105651).
    "$<$<AND:$<COMPILE_LANG_AND_ID:CXX,GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-restrict;-Wno-maybe-uninitialized>")
  if(ATTENIO_WERROR)
    target_compile_options(${target} PRIVATE -Werror)
  endif()
  if(ATTENIO_SANITIZE)
    set(sanitize -fsanitize=${ATTENIO_SANITIZE} -fno-sanitize-recover=all -fno-omit-frame-pointer)
    target_compile_options(${target} PRIVATE ${sanitize})
    target_link_options(${target} PRIVATE ${sanitize})
  endif()
endfunction()

# GCC fuses a*b+c into one rounding by default, Clang only within a statement. Outside of kernels neither may: models,
# schedules and oracles must give the same bits with both compilers and on machines with fused multiply-add. Kernels
# ask for it where they want it and are compared with tolerances.
function(attenio_set_source_options)
  foreach(source IN LISTS ARGN)
    if(NOT source MATCHES "/src/kernels/|/tests/support/amx_")
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -ffp-contract=off)
    endif()
  endforeach()
endfunction()

# The tile instructions are the only ones that a file may be compiled for: Highway has no target for them.
check_cxx_compiler_flag("-mamx-tile -mamx-bf16" ATTENIO_COMPILER_HAS_AMX)
function(attenio_set_amx_options)
  foreach(source IN LISTS ARGN)
    if(ATTENIO_COMPILER_HAS_AMX AND source MATCHES "/src/kernels/amx_[^/]*\\.cc$")
      set_property(SOURCE ${source} APPEND PROPERTY COMPILE_OPTIONS -mamx-tile -mamx-bf16)
    endif()
  endforeach()
endfunction()
