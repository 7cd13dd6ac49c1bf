# sinter_add_engine(NAME SOURCES HEADERS): a static library NAME of the translation units SOURCES, a list, built where it is wanted
# only. HEADERS is the target that knows what the headers need. Its object library is NAME_unit.
function(sinter_add_engine name sources headers)
  add_library(${name}_unit OBJECT EXCLUDE_FROM_ALL ${sources})
  target_link_libraries(${name}_unit PRIVATE ${headers})
  target_compile_definitions(${name}_unit PRIVATE SINTER_COMPILED)
  # Shared libraries may hold it: the first one that a program loads serves them all. What a project asks of its own
  # sources is not asked of these.
  set_target_properties(${name}_unit PROPERTIES POSITION_INDEPENDENT_CODE ON CXX_VISIBILITY_PRESET default
                        VISIBILITY_INLINES_HIDDEN OFF UNITY_BUILD OFF CXX_CLANG_TIDY ""
                        CXX_CPPCHECK "" CXX_CPPLINT "" CXX_INCLUDE_WHAT_YOU_USE "")
  target_compile_options(${name}_unit PRIVATE -w)
  add_library(${name} STATIC EXCLUDE_FROM_ALL $<TARGET_OBJECTS:${name}_unit>)
  target_link_libraries(${name} PUBLIC ${headers})
endfunction()
