"""`python -m crosswind`: the command line of this interpreter's installation."""

from crosswind.cli.main import main

if __name__ == "__main__":
    main()
