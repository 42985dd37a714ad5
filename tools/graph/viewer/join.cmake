# Joins the viewer's sources into one page: tapehead_join_viewer(OUT) puts its text into OUT.
#
# The scripts are ES modules that import by name from one another. A page that opens from a file
# cannot load modules, so each becomes a function that returns what it exports, in an order in which
# imports come first. No other tool is needed to build.

set(viewer_dir ${CMAKE_CURRENT_LIST_DIR})
set(viewer_scripts format lists operations check graph maker replay module_tree script donatable near_names regions
  attention_chain compaction whatif_donation whatif_gradients whatif_checkpoint whatif_fuse
  whatif_recompute whatif diff sizes size_roles dom state model table colours advice savers_details products
  figures_panel advice_panel change_panel modules_panel timeline_strips timeline_drawing timeline_panel
  saved_panel tape_layout tape_colours tape_changes tape_saved tape_drawing tape_panel mask
  mask_grid heat_maps attention_panel preview keyboard details_panel main)

function(tapehead_read name out)
  set_property(DIRECTORY ${PROJECT_SOURCE_DIR} APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS
    ${viewer_dir}/${name})
  file(READ ${viewer_dir}/${name} text)
  set(${out} "${text}" PARENT_SCOPE)
endfunction()

# One module as a function.
function(tapehead_script name out)
  tapehead_read(${name}.js text)
  string(REGEX MATCHALL "\nexport (const|class|(async )?function) [A-Za-z_]+" exports "\n${text}")
  set(names "")
  foreach(export ${exports})
    string(REGEX REPLACE "^.* " "" export "${export}")
    string(APPEND names "${export}, ")
  endforeach()
  string(REGEX REPLACE "\nexport " "\n" text "\n${text}")
  string(REGEX REPLACE "\nimport ({[^}]*})[ \n]+from \"\\./([a-z_]+)\\.js\""
    "\nconst \\1 = modules.\\2" text "${text}")
  set(${out} "modules.${name} = (() => {${text}\nreturn { ${names}};\n})();\n" PARENT_SCOPE)
endfunction()

# The digest of a text in base 64, as a content security policy names it.
function(tapehead_sha256_base64 text out)
  set(alphabet "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")
  string(SHA256 digits "${text}")
  set(digits "${digits}00")  # 32 bytes and one of padding: 11 groups of three
  set(coded "")
  foreach(group RANGE 10)
    math(EXPR at "6 * ${group}")
    string(SUBSTRING "${digits}" ${at} 6 bytes)
    foreach(shift 18 12 6 0)
      math(EXPR index "(0x${bytes} >> ${shift}) & 63")
      string(SUBSTRING "${alphabet}" ${index} 1 character)
      string(APPEND coded "${character}")
    endforeach()
  endforeach()
  string(REGEX REPLACE ".$" "=" coded "${coded}")
  set(${out} "${coded}" PARENT_SCOPE)
endfunction()

function(tapehead_join_viewer out)
  set(script "\"use strict\";\nconst modules = {};\n")
  foreach(name ${viewer_scripts})
    tapehead_script(${name} text)
    string(APPEND script "${text}")
  endforeach()
  tapehead_read(viewer.css style)
  tapehead_sha256_base64("${script}" script_hash)
  tapehead_sha256_base64("${style}" style_hash)
  tapehead_read(viewer.html page)
  foreach(part script_hash style_hash style script)
    string(REPLACE "{{${part}}}" "${${part}}" page "${page}")
  endforeach()
  set(${out} "${page}" PARENT_SCOPE)
endfunction()
