// Smaller subjects that still fail.
#pragma once

#include <functional>

#include "subject.h"

namespace iron::fuzz {

/// Removes ops, regions, results, parameters, groups and threads as long as `fails` holds for what is left.
Subject shrink(const Subject& s, const std::function<bool(const Subject&)>& fails);

}  // namespace iron::fuzz
