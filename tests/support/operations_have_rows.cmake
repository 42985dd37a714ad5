# Fails unless every differentiable operation declared in ops/*.h has a row in the table of operation
# cases. Run by the build of the tests: cmake -DSOURCE_DIR=... -DSTAMP=... -P operations_have_rows.cmake

# Operations without a gradient, or that are no operations on the tape. Each stands in a test file of
# its own family instead.
set(no_row
  # bool or i64 results
  eq ne lt le gt ge logical_and logical_or logical_not isfinite isnan any all argmax argmin
  # made from numbers, not from tensors
  zeros ones full zeros_like ones_like full_like arange tensor rand randn uniform randint multinomial
  # functions that open a tape of their own
  jacobian jvp vjp hvp)

# What several sources share, and no user calls.
set(internal matrix_product.h pointwise_node.h reduce_node.h)

file(GLOB headers ${SOURCE_DIR}/ops/*.h)
list(TRANSFORM internal PREPEND ${SOURCE_DIR}/ops/)
list(REMOVE_ITEM headers ${internal})
set(operations)
foreach(header ${headers})
  file(STRINGS ${header} lines
    REGEX "^(Tensor|std::vector<Tensor>|ValuesAndIndices) [a-z_0-9]+\\(")
  foreach(line ${lines})
    string(REGEX REPLACE "^[^ ]+ ([a-z_0-9]+)\\(.*" "\\1" name "${line}")
    list(APPEND operations ${name})
  endforeach()
endforeach()
list(REMOVE_DUPLICATES operations)

file(GLOB tables ${SOURCE_DIR}/tests/operation_cases_*.cpp)
set(rows)
foreach(table ${tables})
  file(READ ${table} text)
  string(REGEX MATCHALL
    "(row|pointwise|broadcast|add_reduction|add_loss)\\((rows, )?\"[a-z_0-9]+" found "${text}")
  foreach(match ${found})
    string(REGEX REPLACE ".*\"" "" name "${match}")
    list(APPEND rows ${name})
  endforeach()
endforeach()

set(without ${operations})
list(REMOVE_ITEM without ${rows} ${no_row})
if(without)
  list(JOIN without ", " without)
  message(FATAL_ERROR "no row in tests/operation_cases_*.cpp for: ${without}")
endif()

set(gone ${rows} ${no_row})
list(REMOVE_ITEM gone ${operations})
if(gone)
  list(JOIN gone ", " gone)
  message(FATAL_ERROR "rows or exceptions for what ops/*.h does not declare: ${gone}")
endif()
file(TOUCH ${STAMP})
