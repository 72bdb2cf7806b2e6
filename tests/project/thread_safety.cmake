# The target thread_safety: clang checks what base/mutex.h declares, in every source that sees a mutex. The test
# project:thread_safety makes it. Stamps keep what has not changed from being checked again.

find_program(DSCKPT_CLANGXX NAMES clang++ clang++-14 clang++-15 clang++-16 clang++-17 clang++-18)
if(NOT DSCKPT_CLANGXX)
  add_test(NAME project:thread_safety COMMAND ${CMAKE_COMMAND} -E echo "SKIPPED: clang++ is not installed")
  set_tests_properties(project:thread_safety PROPERTIES SKIP_REGULAR_EXPRESSION "SKIPPED")
  return()
endif()

# True when the file, or a header of the project that it includes, mentions a mutex.
function(sees_mutex file result)
  file(STRINGS ${PROJECT_SOURCE_DIR}/${file} lines REGEX "Mutex|^#include \"")
  set(${result} FALSE PARENT_SCOPE)
  foreach(line IN LISTS lines)
    if(line MATCHES "^#include \"(.*)\"")
      if(NOT EXISTS ${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_1})
        continue()
      endif()
      file(STRINGS ${PROJECT_SOURCE_DIR}/${CMAKE_MATCH_1} line REGEX Mutex LIMIT_COUNT 1)
    endif()
    if(line)
      set(${result} TRUE PARENT_SCOPE)
      return()
    endif()
  endforeach()
endfunction()

set(stamps)
foreach(layer base io state run writer reader)
  file(GLOB_RECURSE sources CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/${layer}/*.cc)
  set(includes $<TARGET_PROPERTY:dsckpt_${layer},INCLUDE_DIRECTORIES>)
  set(defines $<TARGET_PROPERTY:dsckpt_${layer},COMPILE_DEFINITIONS>)
  foreach(source ${sources})
    sees_mutex(${source} sees)
    if(NOT sees)
      continue()
    endif()
    string(MAKE_C_IDENTIFIER ${source} id)
    set(stamp ${CMAKE_CURRENT_BINARY_DIR}/thread_safety/${id})
    add_custom_command(
      OUTPUT ${stamp}
      COMMAND ${DSCKPT_CLANGXX} -std=gnu++20 -fsyntax-only -Wthread-safety -Werror=thread-safety
              "$<$<BOOL:${includes}>:-I$<JOIN:${includes},;-I>>" "$<$<BOOL:${defines}>:-D$<JOIN:${defines},;-D>>"
              -MD -MF ${stamp}.d -MT ${stamp} ${PROJECT_SOURCE_DIR}/${source}
      COMMAND ${CMAKE_COMMAND} -E touch ${stamp}
      DEPENDS ${PROJECT_SOURCE_DIR}/${source}
      DEPFILE ${stamp}.d
      COMMAND_EXPAND_LISTS VERBATIM COMMENT "Checking the locks of ${source}")
    list(APPEND stamps ${stamp})
  endforeach()
endforeach()
file(MAKE_DIRECTORY ${CMAKE_CURRENT_BINARY_DIR}/thread_safety)
add_custom_target(thread_safety DEPENDS ${stamps})
add_test(NAME project:thread_safety COMMAND ${CMAKE_COMMAND} --build ${CMAKE_BINARY_DIR} --target thread_safety)
set_tests_properties(project:thread_safety PROPERTIES TIMEOUT 600)
