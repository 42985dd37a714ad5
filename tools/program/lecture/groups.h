// The groups of checks, by the section of the lecture that they stand in. `repeats` is how many
// medians over 20 seeds give the spread of a figure that is drawn.
#pragma once

#include "check.h"

namespace tapehead::program::lecture {

Group projections_break_symmetry(int repeats);  // 1, section 1.4
Group permutation_equivariance(int repeats);    // 2, section 1.5
Group convex_hull(int repeats);                 // 3, section 2.2
Group rank_collapse(int repeats);               // 4, section 2.2
Group backward_by_hand(int repeats);            // 5, section 2.3
Group gradient_isolation(int repeats);          // 6, section 3.1
Group left_padding(int repeats);                // 7, section 3.4
Group one_head_or_two(int repeats);             // 8, section 4.1
Group parameters_and_flops(int repeats);        // 9, sections 4.4 and 5.1
Group memory(int repeats);                      // 10, section 5.2
Group initial_attention(int repeats);           // 11, section 2.1
Group claims_without_figures(int repeats);      // 12
Group reference_self_test(int repeats);         // section B

}  // namespace tapehead::program::lecture
