// The Hopper tier of the kernel language: roles, tensor copies, pipelines, warpgroup products, clusters. Kernels that
// use it are members of a family beside the portable one, refused where the device lacks what they need.
#pragma once

#include "iron/dsl.h"
#include "iron/dsl/hopper/acc.h"
#include "iron/dsl/hopper/pipeline.h"
#include "iron/dsl/hopper/rows.h"
