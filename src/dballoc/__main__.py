"""``python -m dballoc``."""

from dballoc.cli.main import main

if __name__ == "__main__":
    main()
