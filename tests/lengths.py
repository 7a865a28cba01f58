"""`make lint` ends with this list: what is long. Signals to look at, not limits; nothing is cut in two only to get under a number."""

import ast

from tests.sources import PACKAGES, python_files, text, tree

FILE_LINES, FUNCTION_LINES = 400, 35


def main() -> None:
    for path in python_files(*PACKAGES):
        lines = len(text(path).splitlines())
        if lines > FILE_LINES:
            print(f"{path}: {lines} lines")
        for node in ast.walk(tree(path)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES:
                    print(f"{path}:{node.lineno} {node.name}: {length} lines")


if __name__ == "__main__":
    main()
