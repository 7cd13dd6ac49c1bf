// front/define.hpp: the non-template definitions of front/; the compiled engine includes it once.
#pragma once

#include "eager/loop_moves.hpp"
#include "evaluate/handle_rules.hpp"
#include "evaluate/view_rules.hpp"
#include "functions/arrange_rules.hpp"
#include "functions/index_rules.hpp"
#include "functions/order_rules.hpp"
#include "functions/place_rules.hpp"
#include "tensor/term_rules.hpp"
#include "tensor/trace_rules.hpp"
#include "transforms/linear_rules.hpp"
#include "transforms/sample_rules.hpp"
#include "trees/tree_rules.hpp"
