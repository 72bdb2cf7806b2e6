# Runs the program of docs/tutorial/cpp.md twice in a folder of its own: it starts, then resumes.
# Needs PROGRAM and WORK.
file(REMOVE_RECURSE ${WORK})
file(MAKE_DIRECTORY ${WORK})
execute_process(COMMAND ${PROGRAM} WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE first COMMAND_ERROR_IS_FATAL ANY)
execute_process(COMMAND ${PROGRAM} WORKING_DIRECTORY ${WORK} OUTPUT_VARIABLE second COMMAND_ERROR_IS_FATAL ANY)
if(NOT first STREQUAL "" OR NOT second STREQUAL "resumed after step 10\n")
  message(FATAL_ERROR "the first run said '${first}', the second '${second}'")
endif()
