// Uses the installed headers and the installed library: a conversion that lives in the library's code.
#include <cstdio>

#include "iron/types.h"

int main() { std::printf("f16 of 1/3: %.12g\n", static_cast<double>(iron::f16{1.0f / 3.0f})); }
