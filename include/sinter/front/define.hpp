// front/define.hpp: the definitions of front/ that are no templates; the compiled engine includes it once.
#pragma once

#include "handle_rules.hpp"
#include "index_rules.hpp"
#include "loop_moves.hpp"
#include "loop_rows.hpp"
#include "reduce_rules.hpp"
#include "trace_rules.hpp"
#include "view_rules.hpp"
