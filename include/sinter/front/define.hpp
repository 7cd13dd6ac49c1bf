// front/define.hpp: the definitions of front/ that are no templates; the compiled engine includes it once.
#pragma once

#include "handle_rules.hpp"
#include "loop_moves.hpp"
#include "loop_rows.hpp"
