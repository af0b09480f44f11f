# cmake -DPROGRAM=... -DFOLDER=... -P run_in_new_folder.cmake
file(REMOVE_RECURSE "${FOLDER}")
execute_process(COMMAND "${PROGRAM}" "${FOLDER}" COMMAND_ERROR_IS_FATAL ANY)
