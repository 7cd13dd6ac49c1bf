// data.hpp: datasets, batches, tables, text, progress, in namespace sinter::data. Included beside sinter.hpp, which does not
// include it.
#pragma once

#include "data/batches.hpp"
#include "data/csv.hpp"
#include "data/idx.hpp"
#include "data/images.hpp"
#include "data/prepare.hpp"
#include "data/progress.hpp"
#include "data/text.hpp"
#include "data/tokenizer.hpp"
