"""`python -m agent` in a source tree."""

from .cli import main

if __name__ == "__main__":
    main()
