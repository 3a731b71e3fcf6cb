#!/usr/bin/env python3
"""Fits the polynomials of src/passes/math: minimax by Remez exchange, coefficients rounded to f32 one by one.

Usage: fit.py [name ...]   (needs mpmath; prints each fit with its interval and its error in units of 2^-24)

A fit finds c so that max |weight(x) * (sum c_j * x^p_j - target(x))| is least. After each solution the first free
coefficient is rounded to f32 and held, and the others are fitted again around it, so that the rounding of a low power
is compensated by the higher ones. On an interval around zero powers without the constant are no Chebyshev system; where
the exchange fails for that reason, the highest power is rounded first.
"""
import struct
import sys

from mpmath import mp, mpf, matrix, lu_solve, cos, pi, exp, log, sin, tan, asin, atan, sinh, tanh, acosh, asinh, atanh, erf, erfc, erfinv, sqrt

mp.dps = 40


def to_f32(x):
    return mpf(struct.unpack("f", struct.pack("f", float(x)))[0])


def to_hex(x):
    """A C++ hexadecimal float literal: exact."""
    return float(x).hex().replace("0000000p", "p") + "f"


def remez(points, powers, target, weight):
    """Weighted minimax over a grid; returns coefficients and the largest error."""
    n = len(powers)
    if n == 0:
        return [], max(abs(w * g) for g, w in zip(target, weight))
    size = len(points)
    basis = [[x ** p for p in powers] for x in points]
    picks = [round((1 - float(cos(pi * i / n))) / 2 * (size - 1)) for i in range(n + 1)]
    best = None
    for _ in range(30):
        a, b = matrix(n + 1, n + 1), matrix(n + 1, 1)
        for row, i in enumerate(picks):
            for j in range(n):
                a[row, j] = basis[i][j] * weight[i]
            a[row, n] = (-1) ** row
            b[row] = target[i] * weight[i]
        solution = lu_solve(a, b)
        c = [solution[j] for j in range(n)]
        error = [weight[i] * (sum(cj * bj for cj, bj in zip(c, basis[i])) - target[i]) for i in range(size)]
        worst = max(abs(e) for e in error)
        if best is None or worst < best[1]:
            best = (c, worst)
        # Extrema: the largest error of each run of equal sign, then the n + 1 consecutive ones with the largest minimum.
        runs = []
        for i, e in enumerate(error):
            if runs and (error[runs[-1]] > 0) == (e > 0):
                if abs(e) > abs(error[runs[-1]]):
                    runs[-1] = i
            else:
                runs.append(i)
        if len(runs) < n + 1:
            break
        start = max(range(len(runs) - n), key=lambda s: min(abs(error[r]) for r in runs[s:s + n + 1]))
        new = runs[start:start + n + 1]
        if new == picks or worst < abs(solution[n]) * mpf("1.001"):
            break
        picks = new
    return best


def fit(low, high, powers, target, weight, highest_first=False, grid=300):
    """Coefficients in f32, their error, and the error before rounding."""
    low, high = mpf(low), mpf(high)
    points = [(low + high) / 2 - (high - low) / 2 * cos(pi * (2 * i + 1) / (2 * grid)) for i in range(grid)]
    w = [weight(x) for x in points]
    rest = [target(x) for x in points]
    free, done, ideal = list(powers), {}, None
    while free:
        c, worst = remez(points, free, rest, w)
        ideal = worst if ideal is None else ideal
        at = -1 if highest_first else 0
        p, rounded = free[at], to_f32(c[at])
        if highest_first and len(free) == 1:  # the constant is written as the sum of two f32
            rounded += to_f32(c[at] - rounded)
        del free[at]
        done[p] = rounded
        rest = [g - rounded * x ** p for g, x in zip(rest, points)]
    return [done[p] for p in powers], max(abs(a * b) for a, b in zip(rest, w)), ideal


def even(n):
    return [2 * j for j in range(n)]


def up(n):
    return list(range(n))


def odd_tail(f, name, high, n):
    """f(x) = x + x^3 P(x^2)"""
    return (name, "1e-3", high, even(n), lambda x: (f(x) - x) / x ** 3, lambda x: x ** 3 / f(x))


root = sqrt(mpf(2))
log2e = 1 / log(mpf(2))


erfinv_start = to_f32(sqrt(pi) / 2) + to_f32(sqrt(pi) / 2 - to_f32(sqrt(pi) / 2))


def erfinv_ratio(w):
    x = sqrt(-mp.expm1(-w))
    return erfinv(x) / x if x > mpf("1e-12") else sqrt(pi) / 2


FITS = [
    # e^r = 1 + r + r^2 P(r); the weight serves expm1, which asks more than exp
    ("exp", "-0.3475", "0.3475", up(5), lambda r: (exp(r) - 1 - r) / r ** 2, lambda r: r ** 2 / abs(exp(r) - 1)),
    # 2^r = 1 + r P(r)
    ("exp2", "-0.5001", "0.5001", up(6), lambda r: (2 ** r - 1) / r, lambda r: r / 2 ** r),
    ("exp2_short", "-0.5001", "0.5001", up(5), lambda r: (2 ** r - 1) / r, lambda r: r / 2 ** r),
    # log(1 + f) = f + f^2 P(f)
    ("log", root / 2 - 1, root - 1, up(9), lambda f: (mp.log1p(f) - f) / f ** 2, lambda f: f ** 2 / abs(mp.log1p(f))),
    ("log_short", root / 2 - 1, root - 1, up(7), lambda f: (mp.log1p(f) - f) / f ** 2, lambda f: f ** 2 / abs(mp.log1p(f))),
    odd_tail(sin, "sin", "0.7875", 3),
    # cos r = 1 - r^2/2 + r^4 P(r^2)
    ("cos", "1e-3", "0.7875", even(3), lambda r: (cos(r) - 1 + r ** 2 / 2) / r ** 4, lambda r: r ** 4 / cos(r)),
    odd_tail(tan, "tan", "0.7875", 7),
    odd_tail(asin, "asin", "0.5", 5),
    odd_tail(atan, "atan", "1", 9),
    odd_tail(sinh, "sinh", "1", 4),
    odd_tail(tanh, "tanh", "0.5625", 5),
    odd_tail(asinh, "asinh", "0.5", 5),
    odd_tail(atanh, "atanh", "0.5", 6),
    # acosh(1 + t) = sqrt(2t) (1 + t P(t))
    ("acosh", "1e-4", "0.6", up(7), lambda t: (acosh(1 + t) / sqrt(2 * t) - 1) / t, lambda t: t * sqrt(2 * t) / acosh(1 + t)),
    # erf(x) = x + x P(x^2)
    ("erf", "1e-3", "1", even(7), lambda x: erf(x) / x - 1, lambda x: x / erf(x)),
    # erfinv(x) = x (sqrt(pi)/2 + w P(w)) and x P(sqrt(w) - 3.25), w = -log(1 - x^2); 16 is beyond the last f32 below 1
    ("erfinv_centre", "1e-5", "6.125", up(10), lambda w: (erfinv_ratio(w) - erfinv_start) / w, lambda w: w / erfinv_ratio(w)),
    ("erfinv_tail", "-0.7755", "0.7755", up(9), lambda v: erfinv_ratio((v + mpf("3.25")) ** 2), lambda v: 1 / erfinv_ratio((v + mpf("3.25")) ** 2)),
    # log2((1 + s) / (1 - s)) = 2 log2(e) s + s^3 P(s^2)
    ("pow", "1e-3", "0.1716", even(4), lambda s: (2 * log2e * atanh(s) - 2 * log2e * s) / s ** 3, lambda s: s ** 3 / (2 * log2e * atanh(s))),
    # erfc(x) = 2^P(x)
    ("erfc", "1", "4", up(7), lambda x: log(erfc(x)) * log2e, lambda x: erfc(x) / erf(x)),
]


def main():
    wanted = sys.argv[1:]
    for name, low, high, powers, target, weight in FITS:
        if wanted and name not in wanted:
            continue
        c, worst, ideal = fit(low, high, powers, target, weight, name.startswith("erfinv"))
        print(f"// {name}: [{float(low):.4g}, {float(high):.4g}], error {float(worst) * 2 ** 24:.3g} x 2^-24 (unrounded {float(ideal) * 2 ** 24:.3g})")
        print("{" + ", ".join(to_hex(v) if v == to_f32(v) else f"{to_hex(to_f32(v))} + {to_hex(v - to_f32(v))}" for v in c) + "};", flush=True)


if __name__ == "__main__":
    main()
