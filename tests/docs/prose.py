#!/usr/bin/env python3
"""Flags sentences of the pages, and of the headers' /// comments, that are long or contorted.

    prose.py ROOT [FILE...]    all pages and headers of the repository, or the named ones; exits with 1 if a sentence is flagged
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


def comment_sentences(text):
    """(line, sentence) of the /// comments of a header; a ///< comment behind code goes on in lines of its own."""
    found, words, start, kind = [], [], 0, ""

    def flush():
        if words:
            for sentence in re.split(r"(?<=[.!?:])\s+", " ".join(words)):
                found.append((start, sentence))
        words.clear()

    for number, line in enumerate(text.split("\n"), 1):
        alone = re.match(r"\s*///(<?)(?!/)(\s*)(.*)$", line)
        behind = None if alone else re.search(r"\S\s+///<\s*(.*)$", line)
        # Items of lists, and lines of examples, are indented by 3; the rest of an item by more.
        if behind or not alone or not alone.group(3) or alone.group(1) != kind or len(alone.group(2)) == 3:
            flush()
        kind = "<" if behind else alone.group(1) if alone else ""
        if behind or (alone and alone.group(3)):
            if not words:
                start = number
            words.append(behind.group(1) if behind else alone.group(3))
    flush()
    return found


def word_count(sentence):
    sentence = re.sub(r"`[^`]*`", "code", sentence)
    # A list of code spans is one word.
    sentence = re.sub(r"code(?:(?:,| and| or|, and|, or) code)+", "code", sentence)
    sentence = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", sentence)
    return len(re.findall(r"[A-Za-z0-9][\w'’.,×%/-]*", sentence))


def flagged(text, is_header=False):
    """(line, reason, sentence) of the flagged sentences of a page or a header."""
    found = []
    for line, sentence in comment_sentences(text) if is_header else sentences(text):
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
    header = f"/// Few words.\n/// Print what it holds.\nint x;  ///< there is no b\n        ///< and {long}\n// {long}\n/// `{long}`\n"
    got = [(line, reason) for line, reason, _ in flagged(header, True)]
    want = [(1, "'what it'"), (3, "32 words"), (3, "'is no b'")]
    if got != want:
        print(f"self-test of headers: got {got}, want {want}")
        return 1
    return 0


def main():
    if sys.argv[1] == "--self-test":
        return self_test()
    root = pathlib.Path(sys.argv[1])
    headers = sorted((root / "include" / "sinter").rglob("*.hpp"))
    pages = [root / p for p in sys.argv[2:]] or [*sorted(root.glob("*.md")), *sorted((root / "docs").rglob("*.md")), *headers]
    wrong = 0
    for page in pages:
        for line, reason, sentence in flagged(page.read_text(encoding="utf-8"), page.suffix != ".md"):
            print(f"{page.relative_to(root)}:{line}: {reason}: {sentence[:160]}")
            wrong += 1
    print(f"{len(pages)} files, {wrong} sentences to rewrite")
    return 1 if wrong or not pages or (len(sys.argv) == 2 and not headers) else 0


if __name__ == "__main__":
    sys.exit(main())
