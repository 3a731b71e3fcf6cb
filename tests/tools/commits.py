#!/usr/bin/env python3
"""Checks the messages of the repository's own history: conventional subjects, no attribution trailers.

Usage: commits.py [REVISION-RANGE]      default: all of HEAD's history
"""

import re
import subprocess
import sys

TYPES = ("build", "chore", "ci", "docs", "feat", "fix", "merge", "perf", "refactor", "revert", "style", "test")
SUBJECT = re.compile(rf"({'|'.join(TYPES)})(\([a-z0-9_/,+. -]+\))?!?: \S.*")
GENERATED = re.compile(r"(Merge (branch|commit|tag|remote-tracking branch|pull request) |Revert \"|fixup! |squash! )")
ATTRIBUTION = re.compile(r"^\W*(co-authored-by|generated (with|by)|assisted-by|written (with|by))\b", re.IGNORECASE)
LONGEST_SUBJECT = 120


def problems(message):
    """What is wrong with one commit message: a list of sentences, empty when it is right."""
    lines = message.splitlines()
    subject = lines[0] if lines else ""
    found = []
    if subject.startswith(("fixup! ", "squash! ")):
        found.append("a fixup or squash commit was not folded into the one it belongs to")
    elif not SUBJECT.fullmatch(subject) and not GENERATED.match(subject):
        found.append(f"the subject is not of the form 'type(scope): what changed' with type one of {', '.join(TYPES)}")
    if len(subject) > LONGEST_SUBJECT:
        found.append(f"the subject has {len(subject)} characters; at most {LONGEST_SUBJECT}")
    if len(lines) > 1 and lines[1].strip():
        found.append("no empty line after the subject")
    found += [f"an attribution line: {line.strip()!r}" for line in lines[1:] if ATTRIBUTION.match(line)]
    return found


def main(arguments):
    revisions = arguments or ["HEAD"]
    log = subprocess.run(["git", "log", "--format=%h%x1f%B%x1e", *revisions], capture_output=True, text=True, check=False)
    if log.returncode:
        print(f"commits: git log {' '.join(revisions)} failed: {log.stderr.strip()}", file=sys.stderr)
        return 1
    commits = [entry.strip("\n").split("\x1f", 1) for entry in log.stdout.split("\x1e") if entry.strip()]
    bad = 0
    for commit, message in commits:
        for problem in problems(message.strip("\n")):
            print(f"{commit} {(message.splitlines() or [''])[0]!r}: {problem}")
            bad += 1
    print(f"commits: {len(commits)} messages, {bad} problems")
    return 1 if bad or not commits else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
