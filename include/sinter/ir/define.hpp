// ir/define.hpp: the definitions for graph.hpp; the compiled engine includes it once.
#pragma once

#include "../base/define.hpp"
#include "axis_names.hpp"
#include "check.hpp"
#include "infer.hpp"
#include "polynomial.hpp"
#include "print.hpp"
#include "push.hpp"
#include "push_concrete.hpp"
#include "push_opaque.hpp"
#include "read.hpp"
#include "reference.hpp"
