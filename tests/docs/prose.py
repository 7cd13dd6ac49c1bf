#!/usr/bin/env python3
"""Flags sentences of the pages that are long or contorted.

    prose.py ROOT [PAGE.md...]    all pages of the repository, or those named; exits with 1 where a sentence is flagged
    prose.py --self-test

A sentence has at most 25 words, a colon ends it, and a code span counts as one word. PATTERNS lists words that stand for an unnamed thing.
"""
import pathlib
import re
import sys

MOST_WORDS = 25
PATTERNS = [re.compile(p, re.I) for p in (
    r"\bwhat (?:is|are|it|no|they|has|was|does)\b",
    r"\bwhat (?:a|an|the) \w+ (?:is|are|has|does|gives|takes|computes|holds|needs)\b",
    r"\b(?:is|are) no (?!longer\b|more\b|less\b|room\b|limit\b)\w+",
    r"\bone's own\b",
    r"\b(?:that|those) which\b",
    r"\b(?:thread|process|kernel|function|node|op|caller|reader|writer|pass|trace) who\b",
    r"\bby itself alone\b",
)]
# Pages that are not checked yet: none.
PENDING = set()
# Sentences that are right as they are.
EXCEPTIONS = ()


def sentences(text):
    """(line, sentence) of paragraphs, items of lists and cells of tables; code blocks and headings have none."""
    text = re.sub(r"<!--.*?-->", lambda m: "\n" * m.group().count("\n"), text, flags=re.S)
    found, fenced, words, start = [], False, [], 0

    def flush():
        if words:
            for sentence in re.split(r"(?<=[.!?:])\s+", " ".join(words)):
                found.append((start, sentence))
        words.clear()

    for number, line in enumerate(text.split("\n"), 1):
        stripped = line.strip()
        if stripped.startswith("```"):
            flush()
            fenced = not fenced
        elif fenced or not stripped or stripped.startswith("#"):
            flush()
        elif stripped.startswith("|"):
            flush()
            for cell in re.split(r"(?<!\\)\|", stripped.strip("|")):
                words, start = [cell.strip()], number
                flush()
        else:
            item = re.match(r"(?:[-*]|\d+\.)\s+", stripped)
            if item:
                flush()
                stripped = stripped[item.end():]
            if not words:
                start = number
            words.append(stripped)
    flush()
    return found


def word_count(sentence):
    sentence = re.sub(r"`[^`]*`", "code", sentence)
    # A list of code spans is one word.
    sentence = re.sub(r"code(?:(?:,| and| or|, and|, or) code)+", "code", sentence)
    sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
    return len(re.findall(r"[A-Za-z0-9][\w'’.,×%/-]*", sentence))


def flagged(text):
    """(line, reason, sentence) of what is flagged."""
    found = []
    for line, sentence in sentences(text):
        if sentence in EXCEPTIONS:
            continue
        if word_count(sentence) > MOST_WORDS:
            found.append((line, f"{word_count(sentence)} words", sentence))
        plain = re.sub(r"`[^`]*`", "code", sentence)
        found += [(line, f"'{m.group()}'", sentence) for p in PATTERNS if (m := p.search(plain))]
    return found


def self_test():
    long = "word " * 26 + "ends."
    planted = f"# Page\n{long}\nWords that are few. Print what it holds.\n\n| a | there is no b |\n- `x` {'`y`, ' * 30}fine\n```\n{long}\n```\n"
    got = [(line, reason) for line, reason, _ in flagged(planted)]
    want = [(2, "27 words"), (2, "'what it'"), (5, "'is no b'")]
    if got != want:
        print(f"self-test: got {got}, want {want}")
        return 1
    return 0


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1])
    pages = [root / p for p in sys.argv[2:]] or [
        p for p in [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md"))]
        if str(p.relative_to(root)) not in PENDING]
    wrong = 0
    for page in pages:
        for line, reason, sentence in flagged(page.read_text(encoding="utf-8")):
            print(f"{page.relative_to(root)}:{line}: {reason}: {sentence[:160]}")
            wrong += 1
    print(f"{len(pages)} pages, {wrong} sentences to rewrite")
    return 1 if wrong or not pages else 0


if __name__ == "__main__":
    sys.exit(main())
