# Writes OUT with the commit of SOURCE as FRN_COMMIT, and only when it is another, so that nothing is built anew without
# need. Run at every build: the commit changes without CMake being asked.
# A source archive that was unpacked inside another repository must not take that one's commit: SOURCE has to be the top of
# its repository, where git's prefix is empty.
set(_commit "")
execute_process(COMMAND git -C "${SOURCE}" rev-parse --show-prefix
  RESULT_VARIABLE _failed OUTPUT_VARIABLE _prefix OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
if(_failed EQUAL 0 AND _prefix STREQUAL "")
  execute_process(COMMAND git -C "${SOURCE}" rev-parse --short=12 HEAD
    OUTPUT_VARIABLE _commit OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT _commit)
  set(_commit "unknown")
else()
  execute_process(COMMAND git -C "${SOURCE}" status --porcelain --untracked-files=no -- frn studies
    OUTPUT_VARIABLE _changes ERROR_QUIET)
  if(_changes)
    string(APPEND _commit " with changes")
  endif()
endif()
set(_text "#pragma once\n#define FRN_COMMIT \"${_commit}\"\n")
if(EXISTS "${OUT}")
  file(READ "${OUT}" _old)
endif()
if(NOT _old STREQUAL _text)
  file(WRITE "${OUT}" "${_text}")
endif()
