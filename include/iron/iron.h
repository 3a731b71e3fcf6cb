// Everything that a program with kernels of its own includes.
#pragma once

#include "iron/dsl.h"
#include "iron/runtime/device.h"
