// The arithmetic that every rotary kernel shares.
#include "rope/rope.h"

namespace iron::kernels {

Val<f32> rope_frequency(const Val<Index>& pair, const Val<Index>& half, const Val<f32>& log2_base) {
  return exp2(-(cast<f32>(pair) * log2_base / cast<f32>(half)));
}

Val<f32> llama_frequency(const Val<f32>& frequency, const LlamaBands& bands) {
  // Wavelength bands compared as frequencies times the original length: L / lambda = L f / (2 pi).
  const Val<f32> turns = frequency * bands.original / 6.283185307179586f, scaled = frequency / bands.scale;
  const Val<f32> smooth = (turns - bands.low) / (bands.high - bands.low);
  const Val<f32> between = (1.0f - smooth) * scaled + smooth * frequency;
  return select(turns > bands.high, frequency, select(turns < bands.low, scaled, between));
}

Turned turn(const Val<f32>& a, const Val<f32>& b, const Val<f32>& theta) {
  const Val<f32> c = cos(theta), s = sin(theta);
  const Val<f32> first = a * c - b * s, second = a * s + b * c;
  return {first, second};
}

PairPlaces pair_places(RopePairs pairs, const Val<Index>& pair, const Val<Index>& half) {
  if (pairs == RopePairs::half) {
    const Val<Index> second = pair + half;
    return {pair, second};
  }
  const Val<Index> first = pair * 2u, second = first + 1u;
  return {first, second};
}

}  // namespace iron::kernels
