// Whole rows of numbers at once, by the vector instructions that the machine has: the bits are those of ir/scalar.h.
#pragma once

#include "iron/types.h"

namespace iron::exec {

/// out[i] = fma(a[i], b[i], c[i]), a NaN being the quiet one. `out` may be one of the others.
void fma_row(const f32* a, const f32* b, const f32* c, f32* out, u32 n);
/// out[i] = fma(a, b[i], out[i]), NaNs as the machine makes them.
void fma_into_row(f32 a, const f32* b, f32* out, u32 n);
/// 16-bit floats to f32, exactly.
void widen_f16_row(const u16* in, f32* out, u32 n);
void widen_bf16_row(const u16* in, f32* out, u32 n);
/// f32 to the nearest 16-bit floats, ties to even.
void narrow_f16_row(const f32* in, u16* out, u32 n);
void narrow_bf16_row(const f32* in, u16* out, u32 n);

}  // namespace iron::exec
