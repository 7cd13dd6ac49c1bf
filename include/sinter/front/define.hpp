// front/define.hpp: the definitions of front/ that are no templates; the compiled engine includes it once.
#pragma once

#include "loop_rows.hpp"
#include "resolve.hpp"
