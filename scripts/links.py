#!/usr/bin/env python3
"""Checks every relative link and anchor of the tracked Markdown files.

usage: links.py            exit 1 if a link leads to no file or directory, or an anchor to no heading
       links.py --self-test

Checked are [text](target), ![text](target), [text]: target, and src, srcset and href of HTML. Code is skipped. Links to other
hosts are not followed.
"""

import re
import subprocess
import sys
import tempfile
import unicodedata
from pathlib import Path
from urllib.parse import unquote

ROOT = Path(__file__).resolve().parent.parent
FENCE = re.compile(r"^ {0,3}(`{3,}|~{3,})")
HEADING = re.compile(r"^ {0,3}#{1,6}\s+(.*?)(?:\s+#+)?\s*$")
# A target has no spaces and at most one level of parentheses; a title may follow it.
INLINE = re.compile(r"\]\(\s*<?((?:[^\s()<>]|\([^\s()]*\))*)>?(?:\s+[\"'(][^)]*)?\s*\)")
REFERENCE = re.compile(r"^ {0,3}\[[^\]^][^\]]*\]:\s*<?(\S+?)>?(?:\s|$)")
HTML = re.compile(r"\b(?:src|srcset|href)\s*=\s*[\"']([^\"']*)[\"']")
NAMED = re.compile(r"<(?:a|[a-z]+\d?)\s[^>]*?\b(?:id|name)\s*=\s*[\"']([^\"']+)[\"']")


def prose(text):
    """Yields the lines outside of fenced code, with their numbers."""
    fence = None
    for number, line in enumerate(text.split("\n"), 1):
        found = FENCE.match(line)
        if fence is None and found:
            fence = found.group(1)
        elif fence is not None:
            if found and line.strip() == found.group(1) and found.group(1).startswith(fence):
                fence = None
        else:
            yield number, line


def without_code(line):
    return re.sub(r"(`+)(?!`).*?(?<!`)\1(?!`)", "", line)


def slug(heading):
    """Returns the anchor of a heading, as GitHub generates it."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    text = re.sub(r"<[^>`]+>(?=[^`]*(?:`[^`]*`[^`]*)*$)", "", text)
    text = re.sub(r"\\(.)", r"\1", text).replace("`", "").replace("*", "")
    kept = (c for c in text.strip().lower() if c in " -_" or unicodedata.category(c)[0] in "LNM")
    return "".join(kept).replace(" ", "-")


def anchors(text):
    """Returns the anchors of a page: headings, repeated ones with a number, and ids of HTML."""
    found, seen = set(), {}
    for _, line in prose(text):
        found.update(NAMED.findall(without_code(line)))
        if match := HEADING.match(line):
            name = slug(match.group(1))
            count = seen.get(name, 0)
            seen[name] = count + 1
            found.add(f"{name}-{count}" if count else name)
    return found


def links(text):
    for number, line in prose(text):
        line = without_code(line)
        targets = INLINE.findall(line) + REFERENCE.findall(line)
        for value in HTML.findall(line):
            targets += [part.split()[0] for part in value.split(",") if part.strip()]
        for target in targets:
            yield number, target


def broken(root, pages, tracked):
    """Returns the errors of these pages, a line each, and the number of links that were checked."""
    wrong, looked_at, known = [], 0, {}
    folders = {parent.as_posix() for path in tracked for parent in Path(path).parents}
    for page in pages:
        text = (root / page).read_text()
        for number, target in links(text):
            if re.match(r"[a-z][a-z0-9+.-]*:|//", target, re.I):
                continue
            looked_at += 1
            path, _, anchor = target.partition("#")
            at = page
            if path:
                whole = (root / page).parent / unquote(path)
                try:
                    at = whole.resolve().relative_to(root.resolve()).as_posix()
                except ValueError:
                    wrong.append(f"{page}:{number}: {target} leads out of the repository")
                    continue
            if at not in tracked and at not in folders:
                wrong.append(f"{page}:{number}: {target}: no tracked file or directory {at}")
            elif anchor and not at.endswith(".md"):
                wrong.append(f"{page}:{number}: {target}: only Markdown files have anchors")
            elif anchor:
                if at not in known:
                    known[at] = anchors((root / at).read_text())
                if unquote(anchor) not in known[at]:
                    wrong.append(f"{page}:{number}: {target}: no heading #{unquote(anchor)} in {at}")
    return wrong, looked_at


def self_test():
    """Tests that the check fails for invalid links."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        (root / "docs").mkdir()
        (root / "docs/b.md").write_text("# Keys, `users` & what is kept\n## Twice\n## Twice\n```\n# no heading\n```\n")
        good = "docs/b.md docs docs/b.md#keys-users--what-is-kept docs/b.md#twice docs/b.md#twice-1 #a https://x.example/#y"
        bad = "docs/c.md docs/b.md#thrice docs/b.md#no-heading ../out.md #b untracked.md docs#x"
        lines = ["# A", *(f"[x]({target})" for target in (good + " " + bad).split()), '<img src="docs/no.png">']
        lines += ["`[x](in-code.md)`", "```", "[x](in-a-fence.md)", "```"]
        (root / "a.md").write_text("\n".join(lines))
        (root / "untracked.md").write_text("")
        wrong, _ = broken(root, ["a.md"], {"a.md", "docs/b.md"})
        found = {line.split(": ")[1].split(" ")[0] for line in wrong}
        expected = {*bad.split(), "docs/no.png"}
        assert found == expected, f"found {found ^ expected} too much or not at all"


def main():
    self_test()
    if sys.argv[1:] == ["--self-test"]:
        return
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, check=True, capture_output=True, text=True).stdout
    tracked = {path for path in listed.split("\0") if path}
    pages = sorted(path for path in tracked if path.endswith(".md") and (ROOT / path).is_file())
    wrong, looked_at = broken(ROOT, pages, tracked)
    print("\n".join(wrong) if wrong else f"links: {looked_at} relative links in {len(pages)} Markdown files are valid")
    sys.exit(1 if wrong or not looked_at else 0)


if __name__ == "__main__":
    main()
