"""Just enough of C for tidy.py: text without comments and strings, directives, and where functions begin and end.

Not a parser. It relies on the layout of this project: a function's body opens with the brace that ends its signature.
"""

import re
from collections import namedtuple

Function = namedtuple("Function", "name first_line last_line line_count")

TOKEN = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w+)(?:\\\n|[^\n])*", re.M)
NOT_A_FUNCTION = re.compile(r"\b(struct|union|enum|typedef|namespace|class)\b[^()]*$|=|^\s*extern\s*\"\"\s*$")


def blank(match):
    """The same lines and columns, but empty; a string keeps its quotes."""
    text = match.group(0)
    if text[0] in "\"'":
        return text[0] + " " * (len(text) - 2) + text[0]
    return re.sub(r"[^\n]", " ", text)


def strip_c(text):
    """C without comments and without the content of strings, every other character where it was."""
    return TOKEN.sub(blank, text)


def directives(text):
    """(word, line) of each preprocessor directive."""
    clean = strip_c(text)
    return [(match.group(1), clean.count("\n", 0, match.start()) + 1) for match in DIRECTIVE.finditer(clean)]


def _events(clean):
    """Braces, ends of declarations and directives in order, as (offset, what, directive's word)."""
    found = []
    plain = DIRECTIVE.sub(blank, clean)
    found += [(match.start(), "#", match.group(1)) for match in DIRECTIVE.finditer(clean)]
    found += [(match.start(), match.group(0), "") for match in re.finditer(r"[{};]", plain)]
    return sorted(found), plain


def _follow_conditional(word, offset, state, stack):
    """Each branch of an #if starts from the depth that the #if was met at; between functions, with a new declaration."""
    if word in ("if", "ifdef", "ifndef"):
        stack.append(state)
    elif word in ("else", "elif") and stack:
        depth, declared, open_function = stack[-1]
        return depth, declared if depth else offset, open_function
    elif word == "endif" and stack:
        stack.pop()
    return state


def find_functions(text):
    """The functions that a file defines, in order."""
    events, plain = _events(strip_c(text))
    functions, stack, state, wrapped = [], [], (0, 0, None), 0
    for offset, what, word in events:
        depth, declared, open_function = state
        if what == "#":
            depth, declared, open_function = _follow_conditional(word, offset, state, stack)
        elif what == "{":
            head = plain[declared:offset]
            if depth == 0 and not re.search(r"\w", re.sub(r'extern\s*" *"', "", head)) and "extern" in head:
                declared, wrapped = offset + 1, wrapped + 1  # extern "C" { opens no scope
                state = (depth, declared, open_function)
                continue
            if depth == 0 and "(" in head and not NOT_A_FUNCTION.search(head):
                first = declared + len(head) - len(head.lstrip())
                open_function = (_name(head), plain.count("\n", 0, first) + 1)
            depth += 1
        elif what == "}":
            if depth == 0:
                wrapped, declared = max(0, wrapped - 1), offset + 1
            depth = max(0, depth - 1)
            if depth == 0 and open_function:
                last = plain.count("\n", 0, offset) + 1
                functions.append(Function(open_function[0], open_function[1], last, last - open_function[1] + 1))
                open_function = None
            if depth == 0:
                declared = offset + 1
        elif depth == 0:
            declared = offset + 1
        state = (depth, declared, open_function)
    return functions


def _name(head):
    """The last word before the first parenthesis that is no attribute's."""
    head = re.sub(r"__attribute__\s*\(\(.*?\)\)", "", head, flags=re.S)
    match = re.search(r"(\w+)\s*\(", head)
    return match.group(1) if match else "the function"
