"""Shapes that a kernel states, "x, y: [..., n]; weight: [n]", against the shapes of its arguments."""

import functools
import math

from ._library import InvalidArgument


@functools.cache
def parse(text):
    """{parameter: dimensions}; a dimension is "..." or the factors of a product, names and numbers."""
    shapes = {}
    for group in filter(None, (part.strip() for part in text.split(";"))):
        names, _, dimensions = group.partition(":")
        parsed = tuple("..." if d.strip() == "..." else tuple(int(f) if f.strip().isdigit() else f.strip() for f in d.split("*"))
                       for d in dimensions.strip()[1:-1].split(","))
        for name in names.split(","):
            shapes[name.strip()] = parsed
    return shapes


def _text(dimensions):
    return "[" + ", ".join(d if d == "..." else "*".join(map(str, d)) for d in dimensions) + "]"


def solve(kernel, stated, shapes, sizes):
    """Sizes by name that follow from the shapes of the arguments; `sizes` are those given. Raises InvalidArgument where
    two places disagree."""
    sizes, leading, origin = dict(sizes), None, {}
    open_products = []
    for name, dimensions in stated.items():
        if name not in shapes:
            continue
        shape = tuple(shapes[name])

        def wrong(why, name=name, dimensions=dimensions, shape=shape):
            raise InvalidArgument(f"{name} of {kernel} has the shape {list(shape)}, not {_text(dimensions)}: {why}", "D25")

        if "..." in dimensions:
            at = dimensions.index("...")
            rest = len(dimensions) - 1
            if len(shape) < rest:
                wrong(f"at least {rest} dimensions are needed")
            free = shape[at:len(shape) - (rest - at)]
            if leading is None:
                leading = (name, free)
            elif leading[1] != free and math.prod(leading[1]) != math.prod(free):
                wrong(f"'...' is {list(leading[1])} in {leading[0]}")
            pairs = list(zip(dimensions[:at], shape[:at], strict=True)) + list(zip(dimensions[at + 1:], shape[len(shape) - (rest - at):], strict=True))
        elif len(shape) != len(dimensions):
            wrong(f"{len(dimensions)} dimensions are needed")
        else:
            pairs = list(zip(dimensions, shape, strict=True))
        for factors, extent in pairs:
            open_products.append((factors, extent, name, wrong))
    # A product fixes its last unknown factor; names alone first.
    for factors, extent, name, wrong in sorted(open_products, key=lambda p: len(p[0])):
        known = math.prod(f if isinstance(f, int) else sizes.get(f, 1) for f in factors)
        unknown = [f for f in factors if isinstance(f, str) and f not in sizes]
        if not unknown:
            if known != extent:
                label = "*".join(map(str, factors))
                wrong(f"{label} is {known}" + (f" by {origin[label]}" if label in origin else ""))
        elif len(unknown) == 1 and known and extent % known == 0:
            sizes[unknown[0]], origin[unknown[0]] = extent // known, name
        else:
            wrong(f"{extent} is no multiple of {known}")
    return sizes
