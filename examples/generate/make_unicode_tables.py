#!/usr/bin/env python3
"""Writes unicode_tables.h from Python's own copy of the Unicode character database."""
import pathlib
import unicodedata


def ranges(wanted):
    out = []
    for c in range(0x110000):
        if unicodedata.category(chr(c))[0] == wanted:
            if out and out[-1][1] == c - 1:
                out[-1][1] = c
            else:
                out.append([c, c])
    return out


def table(name, rows):
    lines, line = [], ""
    for first, last in rows:
        cell = f"{{0x{first:x}, 0x{last:x}}}, "
        if len(line) + len(cell) > 116:
            lines.append("    " + line.rstrip())
            line = ""
        line += cell
    lines.append("    " + line.rstrip().rstrip(","))
    return f"inline constexpr CodePointRange {name}[] = {{\n" + "\n".join(lines) + "};\n"


text = f"""// Code points of the general categories L* and N*, Unicode {unicodedata.unidata_version}; written by make_unicode_tables.py.
#pragma once

#include "iron/types.h"

// clang-format off
namespace iron::model {{

struct CodePointRange {{ u32 first, last; }};

{table("letter_ranges", ranges("L"))}
{table("number_ranges", ranges("N"))}
}}  // namespace iron::model
"""
pathlib.Path(__file__).with_name("unicode_tables.h").write_text(text, encoding="utf-8")
