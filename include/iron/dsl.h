// The kernel language, whole: include this in files that define kernels.
#pragma once

#include "iron/dsl/copies.h"
#include "iron/dsl/kernel.h"
#include "iron/dsl/tile.h"

/// `if_(c) { ... } else if_(d) { ... } else { ... }`. Code that has its own `if_` defines IRON_NO_IF_MACRO and writes
/// IRON_IF.
#ifndef IRON_NO_IF_MACRO
#define if_(...) IRON_IF(__VA_ARGS__)
#endif
