"""``python -m dballoc``."""

from dballoc.cli.main import start

if __name__ == "__main__":
    start()
